package messages_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pacer-notify/pacer/client"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/redistest"
	"github.com/pacer-notify/pacer/test/transcript"
)

// programs is the folder of the built programs.
var programs string

func TestMain(m *testing.M) {
	built := processtest.Build(m, "dispatcher", "enqueue")
	programs = filepath.Dir(built.Path("dispatcher"))
	os.Exit(postgrestest.Around(redistest.Around(built)).Run())
}

func TestMessages(t *testing.T) {
	t.Parallel()
	n := deploy(t)
	deployOthers(t, n)
	files, err := filepath.Glob("testdata/*.transcript")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			transcript.Play(t, file, n.answer)
		})
	}
}

// answer is what pacer says to an input: a shell script ($), a call of the API or of the ops pages (ops), of SQL (sql)
// or of the client (client). Lines before the last that begin with "first" are calls that succeed.
func (n names) answer(t *testing.T, lines []string) string {
	t.Helper()
	for ; len(lines) > 1 && strings.HasPrefix(lines[0], "first "); lines = lines[1:] {
		if ok, said := n.request(t, strings.TrimPrefix(lines[0], "first ")); !ok {
			t.Fatalf("%s: %s", lines[0], said)
		}
	}
	input := strings.Join(lines, "\n")
	kind, of, _ := strings.Cut(input, " ")
	said := ""
	switch {
	case kind == "$":
		said = n.shell(t, of)
	case kind == "sql":
		said = n.sql(t, of)
	case strings.HasPrefix(kind, "client."):
		said = n.client(t, strings.TrimPrefix(kind, "client."), of)
	default:
		said = n.refusal(t, input)
	}
	return steady(t, said)
}

// refusal is the answer to a call. What a pause or another change of settings refuses is accepted until the process
// knows of it, and a busy Redis makes a process ask to try again.
func (n names) refusal(t *testing.T, call string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		ok, said := n.request(t, call)
		if !ok {
			return said
		}
		if time.Now().After(deadline) {
			t.Fatalf("%.100s is accepted: %s", call, said)
		}
	}
}

var (
	mediaType = regexp.MustCompile(`^(-|[a-z]+/[a-z0-9-]+)( |$)`)
	rejected  = regexp.MustCompile(`"rejected":[1-9]`)
	text      = regexp.MustCompile(`(?s)<main>\s*(.*)\s*</main>`)
	tag       = regexp.MustCompile(`<[^>]*>`)
)

// request makes a call: method, path, media type (unless it is JSON) and body. It gives the detail of a problem, and
// else the whole body.
func (n names) request(t *testing.T, call string) (ok bool, said string) {
	t.Helper()
	call, host := os.Expand(call, n.value), n["API"]
	if ops, is := strings.CutPrefix(call, "ops "); is {
		call, host = ops, n["OPS"]
	}
	method, call, _ := strings.Cut(call, " ")
	path, body, _ := strings.Cut(call, " ")
	if !strings.HasPrefix(path, "http") {
		path = "http://" + host + path
	}
	contentType := "application/json"
	if given := mediaType.FindString(body); given != "" {
		contentType, body = strings.Trim(given, "- "), body[len(given):]
	}
	request, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := apitest.Once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct{ Detail string }
	if json.Unmarshal(all, &problem) == nil && problem.Detail != "" {
		return false, problem.Detail
	}
	if page := text.FindSubmatch(all); page != nil {
		all = tag.ReplaceAll(page[1], nil)
	}
	return response.StatusCode < 300 && !rejected.Match(all), string(all)
}

func (n names) value(name string) string { return n[name] }

// shell runs a script that fails, in a folder of its own, and gives what it says on standard error.
func (n names) shell(t *testing.T, script string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", script)
	command.Dir = t.TempDir()
	command.Env = []string{
		"PATH=" + programs + string(filepath.ListSeparator) + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"PACER_SERVER=http://" + n["API"],
	}
	for name, value := range n {
		command.Env = append(command.Env, name+"="+value)
	}
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err == nil {
		t.Fatalf("%s succeeds: %s", script, said.String())
	}
	return strings.ReplaceAll(said.String(), command.Dir, "DIR")
}

// sql is the error of enqueueing a notification with SQL, with its code.
func (n names) sql(t *testing.T, notification string) string {
	t.Helper()
	_, err := postgrestest.Connect(t, n["DATABASE"]).Exec(t.Context(), "SELECT pacer.enqueue($1)", notification)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatalf("%s gives %v, want an error of Postgres", notification, err)
	}
	return refused.Code + " " + refused.Message
}

// client is the error of a function of the public package.
func (n names) client(t *testing.T, function, argument string) string {
	t.Helper()
	c, err := client.New(client.Config{Server: "http://" + n["API"]})
	var of client.Notification
	if strings.HasPrefix(function, "Enqueue") {
		err = errors.Join(err, json.Unmarshal([]byte(argument), &of))
	}
	if err != nil {
		t.Fatal(err)
	}
	switch function {
	case "New":
		_, err = client.New(client.Config{Server: argument})
	case "Enqueue":
		_, err = c.Enqueue(t.Context(), of)
	case "EnqueueTx":
		_, err = client.EnqueueTx(t.Context(), postgrestest.Connect(t, n["DATABASE"]), of)
	case "Get":
		_, err = c.Get(t.Context(), argument)
	}
	return fmt.Sprint(err)
}

// steady is a text without what differs from run to run.
func steady(t *testing.T, said string) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	said = strings.ReplaceAll(said, host, "HOST")
	for _, v := range varying {
		said = v.pattern.ReplaceAllString(said, v.with)
	}
	return moment.ReplaceAllStringFunc(said, func(text string) string {
		if at, err := time.Parse(time.RFC3339, text); err != nil || time.Since(at).Abs() > 48*time.Hour {
			return text // an example
		}
		return "TIME"
	})
}

var moment = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`127\.0\.0\.1:[1-6]\d{4}\b`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`HOST-[0-9A-Z]{8}\b`), "PROCESS"},
	{regexp.MustCompile(`PORT/test_\d+`), "PORT/DATABASE"},
	{regexp.MustCompile(`(?m)\b(\d+(\.\d+)?(ms|µs)|\d+\.\d+s)$`), "DURATION"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "VERSION"},
	{regexp.MustCompile(`/\S*/policy\.yaml`), "POLICY"},
}
