package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pacer-notify/pacer/test/redistest"
	"github.com/pacer-notify/pacer/test/shelltest"
)

// asProgram makes this test program be enqueue, for the shells that call it.
const asProgram = "RUN_AS_ENQUEUE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	redistest.Main(m)
}

// ask runs the program and gives its exit code and what it wrote.
func ask(t *testing.T, input string, args ...string) (code int, out, errs string) {
	t.Helper()
	var outBuffer, errBuffer bytes.Buffer
	code = run(t.Context(), args, streams{in: strings.NewReader(input), out: &outBuffer, err: &errBuffer})
	return code, outBuffer.String(), errBuffer.String()
}

// What each says is in the transcripts of package messages.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"":                                         "--user",
		"-f /nowhere.ndjson":                       "--file",
		"-f /":                                     "/ is a directory",
		"--user ada --print-ids":                   "--print-ids",
		"-f - --user ada":                          "--file",
		"-f /dev/null --user ada":                  "--file",
		"--chanel log":                             "--channel?",
		"--user ada --count 0":                     "--count",
		"--user ada --data {":                      "--data",
		"--user ada --channel fcm --override {":    "--override",
		"--user ada --override {}":                 "--channel",
		"--user ada --locale de":                   "--template",
		"--user M\xfcller":                         "--user",
		"-f /dev/null --idempotency-key \xfc":      "--idempotency-key",
		"--user ada --data {\"a\":\"\xfc\"}":       "--data",
		"--user ada --to \xfc":                     "--to",
		"--user ada --template a --locale \xfc":    "--locale",
		"--user ada --channel f\xfc --override {}": "--channel",
		"--colour":                                 "--colour",
		"--user ada --redis-url nothing":           "--redis-url",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			if code, _, errs := ask(t, "", strings.Fields(line)...); code != exitUsage || !strings.Contains(errs, says) {
				t.Errorf("code %d, said %q", code, errs)
			}
		})
	}
}

// With REDIS_URL the program writes to the queue itself: good lines go in, bad ones are named, and once is enough.
func TestIntoTheQueueItself(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	file := filepath.Join(t.TempDir(), "in.ndjson")
	lines := "\ufeff" + `{"id":"a","user_id":"ada","channel":"log"}
nonsense

{"id":"b","user_id":"ben","channel":"pigeon"}
{"id":"c","user_id":"cleo","channel":"log"}
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := ask(t, "", "-f", file, "--redis-url", url)
	if code != exitRefused || out != "" || !strings.Contains(errs, "accepted 2, repeated 0, refused 2 in ") {
		t.Errorf("code %d, said %q, %q", code, out, errs)
	}
	if !strings.Contains(errs, "line 2: ") || !strings.Contains(errs, "line 4: channel") ||
		strings.Count(errs, "line ") != 2 {
		t.Errorf("complaints: %q", errs)
	}
	code, out, errs = ask(t, "", "-f", file, "--redis-url", url, "--print-ids")
	if code != exitRefused || out != "a\nc\n" || !strings.Contains(errs, "accepted 0, repeated 2, refused 2 in ") {
		t.Errorf("once more: code %d, said %q, %q", code, out, errs)
	}
	var told bytes.Buffer
	code = run(t.Context(), []string{"-f", file, "--redis-url", url, "--print-ids"}, streams{out: full{}, err: &told})
	if code != exitRefused || !strings.Contains(told.String(), "repeated 2, refused 2 in ") ||
		!strings.Contains(told.String(), "could not write all ids") {
		t.Errorf("without room for its output: code %d, said %q", code, &told)
	}
	code, out, errs = ask(t, "", "--user", "ada", "--channel", "log", "--count", "3", "--redis-url", url)
	if code != exitAccepted || strings.Count(out, "\n") != 3 || !strings.HasPrefix(errs, "accepted 3, ") {
		t.Errorf("three from flags: code %d, said %q, %q", code, out, errs)
	}
	code, out, errs = ask(t, `{"user_id":"ada","channel":"log"}`, "-f", "-", "--redis-url", url)
	if code != exitAccepted || out != "" || !strings.HasPrefix(errs, "accepted 1,") {
		t.Errorf("from standard input: code %d, said %q, %q", code, out, errs)
	}
}

// A single notification has no line, and many of it have one fault.
func TestWhyASingleNotificationIsRefused(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	code, out, errs := ask(t, "", "--user", "ada", "--channel", "pigeon", "--count", "3", "--redis-url", url)
	first, last, _ := strings.Cut(errs, "\n")
	if code != exitRefused || out != "" || strings.Contains(errs, "line") ||
		!strings.HasPrefix(first, "enqueue: refused: channel") ||
		!strings.HasPrefix(last, "accepted 0, repeated 0, refused 3 in ") {
		t.Errorf("code %d, said %q, %q", code, out, errs)
	}
}

// What enqueue completion writes completes flags and values in each shell.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		`enqueue --priority cr\t-f /etc/passw\t`:         "<--priority> <critical> <-f> </etc/passwd>",
		`enqueue --us\tada --cat\tchat --channel webp\t`: "<--user> <ada> <--category> <chat> <--channel> <webpush>",
		`enqueue compl\tz\t`:                             "<completion> <zsh>",
	} {
		shells := shelltest.Shells
		if !strings.Contains(line, "/etc") {
			shells = []string{"bash"}
		}
		for _, shell := range shells {
			t.Run(shell+" "+line, func(t *testing.T) {
				t.Parallel()
				line := strings.ReplaceAll(line, `\t`, "\t")
				if got := shelltest.Complete(t, shell, program, "enqueue", line, asProgram+"=1"); got != want {
					t.Errorf("completed to %s, want %s", got, want)
				}
			})
		}
	}
}

// What is posted, after its id, for the flags of a notification.
func TestFlagsOfTheChannels(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"override of a channel": {
			args: []string{"--channel", "fcm", "--to", "token", "--override", `{"android":{"ttl":"60s"}}`},
			want: `,"channel":"fcm","fcm":{"android":{"ttl":"60s"}},"to":"token","user_id":"ada"}`,
		},
		"template with its data": {
			args: []string{
				"--channel", "email", "--template", "welcome", "--locale", "de-AT", "--data", `{"name":"Ada"}`,
			},
			want: `,"channel":"email","template":{"name":"welcome","locale":"de-AT","data":{"name":"Ada"}},` +
				`"user_id":"ada"}`,
		},
		"data without a template": {
			args: []string{"--title", "hi", "--data", `{"a":1}`},
			want: `,"data":{"a":1},"title":"hi","user_id":"ada"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- string(body)
				_, _ = io.WriteString(w, `{"accepted":1,"rejected":0,"results":[{"index":0,"id":"n1"}]}`)
			}))
			t.Cleanup(server.Close)
			code, _, errs := ask(t, "", append(c.args, "--user", "ada", "--server", server.URL)...)
			if code != exitAccepted {
				t.Fatalf("code %d, said %q", code, errs)
			}
			if body := strings.TrimSpace(<-got); !strings.Contains(body, c.want) {
				t.Errorf("posted %s, want %s", body, c.want)
			}
		})
	}
}

// With --promise each id is followed by what is promised of it.
func TestPromise(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- r.URL.RawQuery + " " + string(body)
		_, _ = io.WriteString(w, `{"accepted":2,"rejected":0,"results":[
			{"index":0,"id":"n1","decision":"now","deliver_at":"2026-01-02T15:04:05Z","place":1},
			{"index":1,"id":"n2","decision":"deferred","deliver_at":"2026-01-02T15:05:05Z","place":2,
				"reason":"limit 1/1m"}]}`)
	}))
	t.Cleanup(server.Close)
	code, out, errs := ask(t, "", "--user", "ada", "--count", "2", "--promise", "--max-wait", "5m",
		"--server", server.URL)
	want := "n1\tnow 2026-01-02T15:04:05Z place 1\nn2\tdeferred 2026-01-02T15:05:05Z place 2 limit 1/1m\n"
	if code != exitAccepted || out != want {
		t.Errorf("code %d, said %q, %q; want %q", code, out, errs, want)
	}
	request := <-asked
	if !strings.HasPrefix(request, "promise=true ") || !strings.Contains(request, `"max_wait":"5m"`) {
		t.Errorf("asked %s", request)
	}
}

// The token may be in a file; one that is missing is asked for.
func TestToken(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer canary" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"title":"Unauthorized","detail":"a valid bearer token is required"}`)
			return
		}
		_, _ = io.WriteString(w, `{"accepted":1,"rejected":0,"results":[{"index":0,"id":"n1"}]}`)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := ask(t, "", "--user", "ada", "--server", server.URL, "--token", "file:"+file)
	if code != exitAccepted || out != "n1\n" {
		t.Errorf("code %d, said %q, %q", code, out, errs)
	}
	code, _, errs = ask(t, "", "--user", "ada", "--server", server.URL)
	if code != exitUsage || !strings.Contains(errs, "PACER_TOKEN") {
		t.Errorf("without it: code %d, said %q", code, errs)
	}
}

// A request that the API has not read in time, or that something between has not, is sent again.
func TestATimeOutOfTheServerIsTriedAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusRequestTimeout)
			_, _ = io.WriteString(w, `{"title":"Request Timeout","detail":"request body read timeout"}`)
			return
		}
		_, _ = io.WriteString(w, `{"accepted":1,"rejected":0,"results":[{"index":0,"id":"n1"}]}`)
	}))
	t.Cleanup(server.Close)
	code, out, errs := ask(t, "", "--user", "ada", "--server", server.URL)
	if code != exitAccepted || out != "n1\n" || calls.Load() != 2 {
		t.Errorf("code %d after %d calls, said %q, %q", code, calls.Load(), out, errs)
	}
}

// A response that does not account for what was sent is no API's: nothing says that it was accepted.
func TestAResponseForOtherThanWasSentIsNotPacers(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		`{}`, `{"status":"ok"}`, `{"accepted":2}`, `{"accepted":1,"rejected":1}`, "<html>",
	} {
		t.Run(reply, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, reply) // the client reads it
			}))
			t.Cleanup(server.Close)
			code, out, errs := ask(t, "", "--user", "ada", "--server", server.URL)
			if code != exitUsage || out != "" || !strings.Contains(errs, "its response is not pacer's") {
				t.Errorf("code %d, said %q, %q", code, out, errs)
			}
		})
	}
}

func TestNothingReachable(t *testing.T) {
	t.Parallel()
	code, out, errs := ask(t, "", "--user", "ada", "--server", "http://127.0.0.1:1")
	if code != exitUsage || out != "" || !strings.HasPrefix(errs, "enqueue: nothing is listening at http://127.0.0.1:1 (") ||
		!strings.Contains(errs, "start a dispatcher there") || strings.Count(errs, "\n") != 1 {
		t.Errorf("code %d, said %q, %q", code, out, errs)
	}
}

// full is an output without room.
type full struct{}

// Write implements [io.Writer].
func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
