package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/apitest"
)

const commandsPolicy = `version: 1
categories:
  default: {limits: [{max: 100, per: 1m}]}
  chat: {limits: [{max: 1, per: 1h}]}
`

// served is a running deployment, embedded in the test.
type served struct {
	*testing.T
	api, ops string
}

// listens finds the addresses in what a process logs.
var listens = regexp.MustCompile(`the (API is|ops pages are) listening" url=(http://\S+)`)

// started is a log that says when both listeners have been named.
type started struct {
	mu   sync.Mutex
	text bytes.Buffer
	both chan []string
}

// Write implements io.Writer.
func (s *started) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.text.Write(data)
	if found := listens.FindAllStringSubmatch(s.text.String(), -1); len(found) == 2 && s.both != nil {
		s.both <- []string{found[0][2], found[1][2]}
		s.both = nil
	}
	return n, err
}

// serve runs dispatcher serve until the test ends.
func serve(t *testing.T, args ...string) *served {
	t.Helper()
	policy := written(t, "policy.yaml", commandsPolicy)
	ctx, stop := context.WithCancel(context.Background())
	log := &started{both: make(chan []string, 1)}
	both, ended := log.both, make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{
			"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--log-format", "text",
			"--policy", policy,
		}, args...), streams{out: &bytes.Buffer{}, err: log})
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	select {
	case found := <-both:
		return &served{T: t, api: found[0], ops: strings.TrimPrefix(found[1], "http://")}
	case <-time.After(time.Minute):
		log.mu.Lock()
		defer log.mu.Unlock()
		t.Fatalf("it does not start: %s", log.text.String())
		return nil
	}
}

// post hands over a notification.
func (s *served) post(format string, args ...any) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.api+"/v1/notifications",
		strings.NewReader(fmt.Sprintf(format, args...)))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := apitest.Client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		s.Fatalf("status %d", response.StatusCode)
	}
}

// unavailable is what the ops pages say with 503 while a store is slow, or a command says when they do not respond.
var unavailable = regexp.MustCompile(
	`not respond: |is slow: a reply takes |takes too long to respond: |can't be read now: |deadline exceeded`)

// insist runs a command again for a minute while a store is slow, as it is for a moment on a busy machine.
func (s *served) insist(command func() asked) asked {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		got := command()
		if got.code == 0 || !unavailable.MatchString(got.err) || time.Now().After(deadline) {
			return got
		}
	}
}

// command runs a command that asks the deployment.
func (s *served) command(args ...string) asked {
	s.Helper()
	return s.insist(func() asked { return ask(s.T, append(args, "--ops-listen", s.ops)...) })
}

// onPage runs a command in a terminal of so many columns.
func (s *served) onPage(width int, args ...string) []string {
	s.Helper()
	program, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	got := s.insist(func() asked {
		var out, errs bytes.Buffer
		command := exec.CommandContext(s.Context(), program, append(args, "--ops-listen", s.ops)...)
		command.Env = append(command.Environ(), asProgram+"=1", fmt.Sprintf("COLUMNS=%d", width))
		command.Stdout, command.Stderr = &out, &errs
		if err := command.Run(); command.ProcessState == nil {
			s.Fatal(err)
		}
		return asked{code: command.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
	})
	if got.code != 0 {
		s.Fatalf("%v: %+v", args, got)
	}
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > width {
			s.Errorf("%v has a line of %d columns: %s", args, n, line)
		}
	}
	return lines
}

// want checks a command's exit code and both of its streams; a text may be a part of what is said.
func (s *served) want(got asked, code int, out, err string) {
	s.Helper()
	if got.code != code || !strings.Contains(got.out, out) || !strings.Contains(got.err, err) ||
		out == "" && got.out != "" {
		s.Errorf("code %d, out %q, err %q; want %d, %q, %q", got.code, got.out, got.err, code, out, err)
	}
}

// until reads a page as JSON until something is so. It asks without a command, whose parser takes its time.
func until[T any](s *served, path string, so func(*T) bool) *T {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		of, status := new(T), 0
		request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+s.ops+path, http.NoBody)
		if err != nil {
			s.Fatal(err)
		}
		if response, err := apitest.Once.Do(request); err == nil {
			status = response.StatusCode
			err = json.NewDecoder(response.Body).Decode(of) // fails when a store is slow
			_ = response.Body.Close()                       // it was read
			if err == nil && so(of) {
				return of
			}
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s never comes to that: %d %+v", path, status, of)
		}
	}
}

// await looks until a list has so many rows.
func (s *served) await(n int, query string) {
	s.Helper()
	until(s, "/notifications?"+query, func(l *desk.Listing) bool { return len(l.Items) == n })
}

// waitingFor is a deployment in which one of ada's chats was delivered, two wait, and one of ben's has failed.
func waitingFor(t *testing.T) *served {
	t.Helper()
	d := serve(t)
	for i := range 3 {
		d.post(`{"id":"chat-%d","user_id":"ada","category":"chat","channel":"log","title":"secret %d"}`, i, i)
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no field recipient", http.StatusGone)
	}))
	t.Cleanup(refusing.Close)
	d.post(`{"id":"01a20398-1331-743c-a67b-e215d5fdf4df","user_id":"ben","to":"%s/hook"}`, refusing.URL)
	d.await(2, "status=deferred")
	d.await(1, "status=failed")
	d.await(1, "status=delivered")
	return d
}

// Commands are asked of one deployment: first those that change nothing.
//
//nolint:tparallel // The looks run side by side, and before what changes something.
func TestCommands(t *testing.T) {
	t.Parallel()
	d := waitingFor(t)
	t.Run("Look", func(t *testing.T) {
		for name, look := range map[string]func(*served){
			"List": listOne, "ListPages": listPages, "ListRefuses": listRefuses, "History": history,
			"PolicyShow": policyShow, "Explain": explain,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				look(&served{T: t, api: d.api, ops: d.ops})
			})
		}
	})
	jobsAndMove(d)
}

// A list is a table in columns for people, JSON for programs; both leave contents out.
func listOne(d *served) {
	lines := d.onPage(80, "list", "--user", "ada", "--status", "deferred")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "ACCEPTED  STATUS    USER  CATEGORY  CHANNEL  REASON      ID") ||
		!strings.HasSuffix(lines[1], "deferred  ada   chat      log      limit 1/1h  chat-1") {
		d.Errorf("a narrow list is\n%s", strings.Join(lines, "\n"))
	}
	// What does not fit gets a line of its own, and a program finds each row in one.
	lines = d.onPage(80, "list", "--user", "ben")
	if len(lines) != 4 || lines[1] != "  ID" || lines[3] != "  01a20398-1331-743c-a67b-e215d5fdf4df" {
		d.Errorf("a wide list is\n%s", strings.Join(lines, "\n"))
	}
	if got := d.command("list"); got.code != 0 || strings.Count(got.out, "\n") != 5 ||
		strings.Contains(got.out, "delivered  delivered") {
		d.Errorf("for programs it is %+v", got)
	}
	got := d.command("list", "--json")
	var listing desk.Listing
	if err := json.Unmarshal([]byte(got.out), &listing); err != nil || len(listing.Items) != 4 ||
		strings.Contains(got.out, "secret") || strings.Contains(got.out, "/hook") {
		d.Errorf("the JSON is %+v, %v", got, err)
	}
}

// A list goes on where it ended, and says so when it is empty.
func listPages(d *served) {
	seen := map[string]bool{}
	args := []string{"list", "--json", "--limit", "1"}
	for pages := 0; ; pages++ {
		got := d.command(args...)
		var listing desk.Listing
		if err := json.Unmarshal([]byte(got.out), &listing); err != nil || pages > 50 {
			d.Fatalf("page %d: %+v, %v", pages, got, err)
		}
		for _, item := range listing.Items {
			seen[item.ID] = true
		}
		if listing.Next == "" {
			break
		}
		args = []string{"list", "--json", "--limit", "1", "--cursor", listing.Next}
	}
	if len(seen) != 4 {
		d.Errorf("the pages have %v", seen)
	}
	d.want(d.command("list", "--limit", "1"), 0, "ID", " --cursor ")
	d.want(d.command("list", "--user", "nobody"), 0, "", "")
}

// Wrong filters end with code 2, and name what there is and the nearest.
func listRefuses(d *served) {
	for says, args := range map[string][]string{
		"status": {"--status", "faild"},
		`--limit must be a whole number, is "many"`: {"--limit", "many"},
		"--user?": {"--usr", "ada"},
		"ada":     {"ada"},
	} {
		got := d.command(append([]string{"list"}, args...)...)
		if got.code != 2 || got.out != "" || !strings.Contains(got.err, says) || strings.Count(got.err, "\n") != 1 {
			d.Errorf("%+v, want %s", got, says)
		}
	}
}

// What changes many is counted first, is followed to its end, and stands in the list of jobs.
func jobsAndMove(d *served) {
	d.want(d.command("jobs"), 0, "", "")
	d.want(d.command("jobs", "--stop", "job-1"), 1, "", "job-1")
	d.want(d.command("move", "--user", "ada"), 2, "", "--to-channel")
	d.want(d.command("move", "--to-channel", "log"), 2, "", "--user")
	d.want(d.command("move", "--user", "ben", "--status", "failed", "--to-channel", "lgo"), 2, "", "log?")
	d.want(d.command("move", "chat-1", "--to-channel", "log", "--yes"), 1, "", "chat-1")
	d.want(d.command("move", "chat-9", "--to-channel", "log", "--yes"), 1, "", "chat-9")
	d.want(d.command("move", "--user", "ben", "--status", "failed", "--to-channel", "log", "--dry-run"), 0,
		"status=failed", "")
	d.want(d.command("move", "--user", "ben", "--status", "failed", "--to-channel", "log"), 1, "",
		"--yes")
	d.want(d.command("move", "--user", "ben", "--status", "failed", "--to-channel", "log", "--yes"), 0,
		"1 of 1", "")
	d.await(1, "user=ben&channel=log")
	lines := d.onPage(100, "jobs")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "BEGUN     STATUS  ID ") || lines[1] != "  FILTER" ||
		!strings.Contains(lines[2], "  done    job-") || !strings.Contains(lines[2], "  1 of 1 moved") {
		d.Errorf("the jobs are\n%s", strings.Join(lines, "\n"))
	}
	var jobs []desk.BulkJob
	if got := d.command("jobs", "--json"); json.Unmarshal([]byte(got.out), &jobs) != nil || len(jobs) != 1 || jobs[0].Done != 1 {
		d.Errorf("for programs they are %+v", got)
	}
	d.want(d.command("jobs", "--stop", jobs[0].ID), 1, "", jobs[0].ID)
}

// sumOfHistory is the last line of the history of [waitingFor]. A slow process returns a grant that it gets late, which
// is one more deferral.
var sumOfHistory = regexp.MustCompile(`^sum 4 1 [2-9] 1 0 0 0$`)

// The history has a line for each hour and their sum, and says so when there is nothing.
func history(d *served) {
	lines := d.onPage(80, "history")
	if len(lines) < 3 || strings.Join(strings.Fields(lines[0]), " ") !=
		"hour accepted delivered deferred failed expired cancelled replaced" ||
		!sumOfHistory.MatchString(strings.Join(strings.Fields(lines[len(lines)-1]), " ")) {
		d.Errorf("the history is\n%s", strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		if len(line) != len(lines[0]) {
			d.Errorf("the columns are not aligned in\n%s", strings.Join(lines, "\n"))
		}
	}
	var history desk.History
	if got := d.command("history", "--category", "chat", "--json"); json.Unmarshal([]byte(got.out), &history) != nil ||
		len(history.Hours) == 0 || history.Hours[0].Category != "chat" {
		d.Errorf("for programs it is %+v", got)
	}
	d.want(d.command("history", "--category", "chta"), 2, "", "category: ")
	d.want(d.command("history", "--since", "99d"), 2, "", "since: ")
	d.want(d.command("history", "--since", "monday"), 2, "", `is "monday"`)
}

// policy show prints what is in force, as a file that policy check accepts.
func policyShow(d *served) {
	d.inForce(func(in *ops.PolicyInForce) bool { return len(in.Processes) > 0 })
	got := d.command("policy", "show")
	d.want(got, 0, commandsPolicy, "1 of 1 ")
	again := written(d.T, "again.yaml", got.out)
	d.want(ask(d.T, "policy", "check", again), 0, "again.yaml", "")
	d.want(d.command("policy", "shwo"), 2, "", "show?")
	d.want(ask(d.T, "policy"), 2, "", "policy")
}

// explain shows each attempt once, and contents only to those who ask for them.
func explain(d *served) {
	const id = "01a20398-1331-743c-a67b-e215d5fdf4df"
	got := d.command("explain", id)
	for text, times := range map[string]int{
		"attempt 1: failed, after ": 1, "no field recipient": 1, "times in": 1, "127.0.0.1/***": 0,
		"target_gone: 410": 1, "attempts      1\n": 1,
	} {
		if got.code != 0 || strings.Count(got.out, text) != times {
			d.Errorf("%q is not there %d times in\n%s%s", text, times, got.out, got.err)
		}
	}
	for _, line := range d.onPage(80, "explain", id, "--contents") {
		if strings.Contains(line, "/hook") {
			d.Errorf("it shows the target: %s", line)
		}
	}
	d.want(d.command("explain", "chat-1", "--contents"), 0, "title         secret 1\n", "")
	if got := d.command("explain", "chat-1", "--json"); got.code != 0 || strings.Contains(got.out, "secret") {
		d.Errorf("JSON has contents that nobody asked for: %+v", got)
	}
	d.want(d.command("explain", "chat-1", "--json", "--contents"), 0, `"title": "secret 1"`, "")
	d.want(d.command("explain", "chat-2"), 0, "1 of the user's", "")
	d.want(d.command("explain", "chat-9"), 1, "", "chat-9")
	d.want(d.command("explain", "ada"), 1, "", "dispatcher user ada")
}
