package ops_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	netpprof "net/http/pprof"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/hosts"
	"github.com/pacer-notify/pacer/internal/ops"
)

// asked is a request as it comes to a listener on an address, under a host.
func asked(t *testing.T, method, target, local, host string) *http.Request {
	t.Helper()
	address, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(`{"action":"cancel","id":"n1"}`))
	request.Host = host
	return request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, address))
}

// No page is shown under a foreign host, with which a page of another site would read it; every page is under the
// listener's own, and with the token.
func TestEveryPageLooksAtTheHost(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Actions, cfg.Token = &deeds{}, "t"
	cfg.Host = hosts.New("127.0.0.1:8081", []string{"ops.example"}).Has
	cfg.Live = ops.NewLive(func(context.Context) (*ops.Snapshot, error) { return nil, errAway }, slog.New(slog.DiscardHandler))
	patterns := ops.Patterns(cfg)
	if len(patterns) < 20 {
		t.Fatalf("there are only the pages %v", patterns)
	}
	for _, pattern := range patterns {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{$}", "", "{id}", "n-1", "{user}", "u-1", "{query}", "n-1").Replace(path)
		if strings.HasSuffix(path, "/profile") || strings.HasSuffix(path, "/trace") {
			path += "?seconds=0.01"
		}
		for _, c := range []struct {
			host, token string
			served      bool
		}{
			{"evil.example:8081", "", false},
			{"10.0.0.7:8081", "", false},
			{"evil.example:8081", "u", false},
			{"127.0.0.1:8081", "", true},
			{"[::1]:8081", "", true},
			{"localhost:8081", "", true},
			{"ops.example", "", true},
			{"evil.example:8081", "t", true},
		} {
			request := asked(t, method, path, "127.0.0.1:8081", c.host)
			if c.token != "" {
				request.Header.Set("Authorization", "Bearer "+c.token)
			}
			ctx, end := context.WithCancel(request.Context())
			end() // a stream ends at once
			recorder := httptest.NewRecorder()
			ops.Handler(cfg).ServeHTTP(recorder, request.WithContext(ctx))
			if served := recorder.Code != http.StatusMisdirectedRequest; served != c.served {
				t.Errorf("%s under %s with token %q: %d %s", pattern, c.host, c.token, recorder.Code, recorder.Body)
			}
		}
	}
}

// Profiles are for those on this machine and those with the token.
func TestWhoSeesProfiles(t *testing.T) {
	t.Parallel()
	tracing.Lock()
	defer tracing.Unlock()
	for name, c := range map[string]struct {
		token, given, local, host string
		want                      int
	}{
		"on this machine":             {"", "", "127.0.0.1:8081", "localhost:8081", http.StatusOK},
		"on it, with a token to have": {"t", "", "[::1]:8081", "[::1]:8081", http.StatusOK},
		"through a proxy on it":       {"t", "", "127.0.0.1:8081", "ops.example", http.StatusUnauthorized},
		"elsewhere":                   {"", "", "10.1.2.3:8081", "10.1.2.3:8081", http.StatusForbidden},
		"elsewhere, no token":         {"t", "", "10.1.2.3:8081", "10.1.2.3:8081", http.StatusUnauthorized},
		"elsewhere, another token":    {"t", "u", "10.1.2.3:8081", "10.1.2.3:8081", http.StatusUnauthorized},
		"elsewhere, the token":        {"t", "t", "10.1.2.3:8081", "10.1.2.3:8081", http.StatusOK},
	} {
		for _, page := range []string{"/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/symbol", "/debug/pprof/trace?seconds=0.001"} {
			cfg := config()
			cfg.Token = c.token
			request := asked(t, http.MethodGet, page, c.local, c.host)
			if c.given != "" {
				request.Header.Set("Authorization", "Bearer "+c.given)
			}
			recorder := httptest.NewRecorder()
			ops.Handler(cfg).ServeHTTP(recorder, request)
			if recorder.Code != c.want {
				t.Errorf("%s %s: %d %s, want %d", name, page, recorder.Code, recorder.Body, c.want)
			}
		}
	}
}

// inChild is set in the process that has a secret on its command line.
const inChild = "PROFILES_OF_A_PROCESS_WITH_SECRETS"

// No profile shows what the command line says, where tokens may be.
func TestProfilesShowNoCommandLine(t *testing.T) {
	t.Parallel()
	const canary = "canary-api-token"
	if os.Getenv(inChild) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProfilesShowNoCommandLine$", "-test.v", "--", "--api-tokens="+canary)
		child.Env = append(os.Environ(), inChild+"=1")
		if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	recorder := httptest.NewRecorder()
	netpprof.Cmdline(recorder, asked(t, http.MethodGet, "/", "127.0.0.1:1", "localhost"))
	if !strings.Contains(recorder.Body.String(), canary) {
		t.Fatal("this process has no canary on its command line")
	}
	targets := []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=0.1"}
	for _, p := range pprof.Profiles() {
		for debug := range 3 {
			targets = append(targets, fmt.Sprintf("/debug/pprof/%s?debug=%d", p.Name(), debug))
		}
	}
	for _, target := range targets {
		recorder := httptest.NewRecorder()
		ops.Handler(config()).ServeHTTP(recorder, asked(t, http.MethodGet, target, "127.0.0.1:8081", "localhost:8081"))
		want := http.StatusOK
		if target == "/debug/pprof/cmdline" {
			want = http.StatusNotFound
		}
		if recorder.Code != want {
			t.Errorf("%s gives %d, want %d", target, recorder.Code, want)
		}
		text := recorder.Body.Bytes()
		if plain, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
			if text, err = io.ReadAll(plain); err != nil {
				t.Fatal(err)
			}
		}
		if len(text) == 0 || bytes.Contains(text, []byte(canary)) {
			t.Errorf("%s shows the command line, or nothing (%d bytes)", target, len(text))
		}
	}
}
