package main

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/pacer-notify/pacer/test/apitest"
)

// announced is standard error: it passes the address on that is written there first.
type announced struct {
	mu      sync.Mutex
	text    bytes.Buffer
	address chan string
}

var receivesAt = regexp.MustCompile(`http://[0-9.:]+\d`)

// Write implements io.Writer.
func (a *announced) Write(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if url := receivesAt.Find(data); url != nil && a.text.Len() == 0 {
		a.address <- string(url)
	}
	return a.text.Write(data)
}

func (a *announced) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

// received is what a receiver ended with.
type received asked

// receive runs the command, hands it to a function with its address, stops it, and gives what it wrote.
func receive(t *testing.T, with func(url string), args ...string) received {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	written := &bytes.Buffer{}
	said := &announced{address: make(chan string, 1)}
	ended := make(chan int)
	go func() {
		ended <- run(ctx, append([]string{"receive", "--listen", "127.0.0.1:0"}, args...), streams{out: written, err: said})
	}()
	select {
	case url := <-said.address:
		with(url)
	case code := <-ended:
		t.Fatalf("code %d, said %s", code, said)
	}
	stop()
	code := <-ended
	return received{code: code, out: written.String(), err: said.String()}
}

func postTo(t *testing.T, url, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Pacer-Attempt", "1")
	response, err := apitest.Once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // it is empty
	return response.StatusCode
}

// A receiver prints what arrives, fails as told, and ends with a summary.
func TestReceive(t *testing.T) {
	t.Parallel()
	got := receive(t, func(url string) {
		for i, want := range []int{http.StatusServiceUnavailable, http.StatusNoContent} {
			body := `{"id":"n1","user_id":"ada","category":"chat","title":"\u001b[31mred"}`
			if status := postTo(t, url, body); status != want {
				t.Errorf("request %d: status %d, want %d", i+1, status, want)
			}
		}
	}, "--fail", "503:1")
	lines := strings.Split(got.out, "\n")
	if got.code != 0 || len(lines) != 3 || strings.Contains(got.out, "\x1b") ||
		!strings.Contains(lines[0], `ada, chat: "\x1b[31mred", attempt 1, the first, unsigned, n1 -> 503`) ||
		!strings.Contains(lines[1], "s after the one before, unsigned, n1 -> 204") {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.err, "received 2: failed on purpose 1, invalid signature 0, not a notification 0") {
		t.Errorf("said %s", got.err)
	}
}

func TestReceiveForPrograms(t *testing.T) {
	t.Parallel()
	out := receive(t, func(url string) { postTo(t, url+"/phone", `{"id":"n1","user_id":"ada"}`) }, "--json").out
	if !strings.Contains(out, `"path":"/phone"`) || !strings.Contains(out, `"gap_seconds":null`) ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("wrote %s", out)
	}
}

// What pacer signs with a secret is valid for a receiver that knows it.
func TestReceiveVerifies(t *testing.T) {
	t.Parallel()
	const secret, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcg=="
	got := receive(t, func(url string) {
		for _, with := range []string{secret, other} {
			sent := ask(t, "send-test", "--channel", "webhook", "--to", url, "--webhook-secret", with)
			if sent.code != 0 {
				t.Errorf("%+v", sent)
			}
		}
	}, "--secret", secret)
	lines := strings.Split(got.out, "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], ", valid, ") || !strings.Contains(lines[1], ", invalid, ") ||
		!strings.Contains(got.err, "invalid signature 1") {
		t.Errorf("%+v", got)
	}
}

func TestReceiveRefuses(t *testing.T) {
	t.Parallel()
	receive(t, func(url string) {
		for _, wrong := range [][]string{
			{"--listen", strings.TrimPrefix(url, "http://")},
			{"--fail", "never"},
			{"--slow", "-1s"},
			{"--secret", "canary"},
			{"--secret", "file:/nowhere"},
		} {
			t.Run(wrong[0], func(t *testing.T) {
				got := ask(t, append([]string{"receive"}, wrong...)...)
				if got.code != 2 || !strings.Contains(got.err, wrong[0]) || strings.Contains(got.err, "canary") {
					t.Errorf("%v: %+v", wrong, got)
				}
			})
		}
	})
}
