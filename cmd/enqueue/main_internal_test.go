package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// ask runs the program and gives its exit code and what it wrote.
func ask(t *testing.T, input string, args ...string) (code int, out, errs string) {
	t.Helper()
	var outBuffer, errBuffer bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(input), &outBuffer, &errBuffer})
	return code, outBuffer.String(), errBuffer.String()
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"NoUser":      {nil, "--user"},
		"NoFile":      {[]string{"-f", "/nowhere.ndjson"}, "--file"},
		"FileAndUser": {[]string{"-f", os.DevNull, "--user", "ada"}, "--file"},
		"Count":       {[]string{"--user", "ada", "--count", "0"}, "--count"},
		"Data":        {[]string{"--user", "ada", "--data", "{"}, "--data"},
		"UnknownFlag": {[]string{"--colour"}, "--colour"},
		"Unreachable": {[]string{"--user", "ada", "--redis-url", "nothing"}, "--redis-url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, _, errs := ask(t, "", c.args...); code != exitUsage || !strings.Contains(errs, c.says) {
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
	lines := `{"id":"a","user_id":"ada","channel":"log"}
nonsense

{"id":"b","user_id":"ben","channel":"pigeon"}
{"id":"c","user_id":"cleo","channel":"log"}
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := ask(t, "", "-f", file, "--redis-url", url)
	if code != exitRefused || !strings.HasPrefix(out, "accepted 2, refused 2") {
		t.Errorf("code %d, said %q", code, out)
	}
	if !strings.Contains(errs, "line 2: ") || !strings.Contains(errs, "line 4: channel") || strings.Count(errs, "line ") != 2 {
		t.Errorf("complaints: %q", errs)
	}
	if code, out, errs := ask(t, "", "--user", "ada", "--channel", "log", "--count", "3", "--redis-url", url); code != exitAccepted || strings.Count(out, "\n") != 4 {
		t.Errorf("three from flags: code %d, said %q, %q", code, out, errs)
	}
	if code, out, _ := ask(t, `{"user_id":"ada","channel":"log"}`, "-f", "-", "--redis-url", url); code != exitAccepted || !strings.HasPrefix(out, "accepted 1,") {
		t.Errorf("from standard input: code %d, said %q", code, out)
	}
}

func TestNothingReachable(t *testing.T) {
	t.Parallel()
	if code, _, errs := ask(t, "", "--user", "ada", "--server", "http://127.0.0.1:1"); code != exitUsage || !strings.Contains(errs, "can't be reached") {
		t.Errorf("code %d, said %q", code, errs)
	}
}
