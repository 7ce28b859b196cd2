package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The exit code tells the mail server whether to keep the message: whatever may be different later, it keeps for.
func TestBounceTellsTheMailServerWhatToDo(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{
		http.StatusOK: 0, http.StatusBadRequest: exDataErr, http.StatusRequestEntityTooLarge: exDataErr,
		http.StatusUnprocessableEntity: exDataErr, http.StatusUnauthorized: exTempFail, http.StatusNotFound: exTempFail,
		http.StatusConflict: exTempFail, http.StatusTooManyRequests: exTempFail, http.StatusNotImplemented: exTempFail,
		http.StatusServiceUnavailable: exTempFail, http.StatusFound: exTempFail,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/email/bounces" || r.Header.Get("Authorization") != "Bearer t" ||
					r.Header.Get("Content-Type") != "message/rfc822" {
					t.Errorf("%s %s: %v", r.Method, r.URL, r.Header)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "said") // the client reads it
			}))
			defer api.Close()
			var out, said strings.Builder
			got := run(t.Context(), []string{"bounce", "--server", api.URL + "/", "--token", "t"}, streams{&out, &said})
			if got != want || !strings.Contains(out.String()+said.String(), "said") {
				t.Errorf("exit code %d, want %d: %s%s", got, want, out.String(), said.String())
			}
		})
	}
}

// What a report says stands at its beginning: of a longer one than the API takes, so much is posted.
func TestBounceOfALongMessage(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || len(body) != maxBounce {
			t.Errorf("%d bytes are posted, %v; want %d", len(body), err, maxBounce)
		}
	}))
	defer api.Close()
	command := exec.CommandContext(t.Context(), program, "bounce", "--server", api.URL)
	command.Env = append(command.Environ(), asProgram+"=1")
	command.Stdin = strings.NewReader("Subject: x\r\n\r\n" + strings.Repeat("x", maxBounce))
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestBounceKeepsAMessageThatItCannotPost(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"nobody there":  {"--server", "http://127.0.0.1:1"},
		"no token file": {"--token", "file:" + filepath.Join(t.TempDir(), "none")},
	} {
		var out, said strings.Builder
		if got := run(t.Context(), append([]string{"bounce"}, args...), streams{&out, &said}); got != exTempFail {
			t.Errorf("%s: exit code %d: %s", name, got, said.String())
		}
	}
}
