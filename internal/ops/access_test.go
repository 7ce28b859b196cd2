package ops_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	netpprof "net/http/pprof"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
)

// asked makes a request as it comes to a listener on an address, under a host.
func asked(t *testing.T, method, target, local, host string) *http.Request {
	t.Helper()
	address, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.NewReader(`{"action":"cancel","id":"n1"}`)
	request := httptest.NewRequestWithContext(t.Context(), method, target, body)
	request.Host = host
	return request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, address))
}

// No page is served under a foreign host, or another site's page could read it. Every page is served under the
// listener's own hosts, and to those with the token.
func TestEveryPageChecksTheHost(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Actions, cfg.Tokens = &fakeActions{}, secret.NewTokens("t")
	cfg.Host = settings.NewHosts("127.0.0.1:8081", []string{"ops.example"}).Has
	cfg.Live = ops.NewLive(func(context.Context) (*ops.Snapshot, error) { return nil, errAway }, cfg.Log)
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
		for _, tt := range []struct {
			name, host, token string
			served            bool
		}{
			{name: "foreign name", host: "evil.example:8081"},
			{name: "foreign address", host: "10.0.0.7:8081"},
			{name: "foreign name, wrong token", host: "evil.example:8081", token: "u"},
			{name: "loopback", host: "127.0.0.1:8081", served: true},
			{name: "loopback, IPv6", host: "[::1]:8081", served: true},
			{name: "localhost", host: "localhost:8081", served: true},
			{name: "allowed name", host: "ops.example", served: true},
			{name: "foreign name, the token", host: "evil.example:8081", token: "t", served: true},
		} {
			t.Run(pattern+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				request := asked(t, method, path, "127.0.0.1:8081", tt.host)
				if tt.token != "" {
					request.Header.Set("Authorization", "Bearer "+tt.token)
				}
				ctx, end := context.WithCancel(request.Context())
				end() // a stream ends at once
				recorder := httptest.NewRecorder()
				ops.Handler(cfg).ServeHTTP(recorder, request.WithContext(ctx))
				if served := recorder.Code != http.StatusMisdirectedRequest; served != tt.served {
					t.Errorf("%d %s; served: %t, want %t", recorder.Code, recorder.Body, served, tt.served)
				}
			})
		}
	}
}

// Profiles are for those on this machine and those with the token.
func TestProfilesAreForThisMachineAndTheToken(t *testing.T) {
	t.Parallel()
	const here, elsewhere = "127.0.0.1:8081", "10.1.2.3:8081"
	for _, tt := range []struct {
		name         string
		token, given string // the token that is set, and the one that comes with the request
		local, host  string
		want         int
	}{
		{name: "on this machine", local: here, host: "localhost:8081", want: http.StatusOK},
		{name: "on it, without the token", token: "t", local: "[::1]:8081", host: "[::1]:8081", want: http.StatusOK},
		{name: "through a proxy on it", token: "t", local: here, host: "ops.example", want: http.StatusUnauthorized},
		{name: "elsewhere, no token set", local: elsewhere, host: elsewhere, want: http.StatusForbidden},
		{name: "elsewhere, none given", token: "t", local: elsewhere, host: elsewhere, want: http.StatusUnauthorized},
		{name: "elsewhere, other", token: "t", given: "u", local: elsewhere, host: elsewhere, want: http.StatusUnauthorized},
		{name: "elsewhere, the token", token: "t", given: "t", local: elsewhere, host: elsewhere, want: http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tracing.Lock()
			defer tracing.Unlock()
			for _, page := range []string{
				"/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/symbol", "/debug/pprof/trace?seconds=0.001",
			} {
				cfg := config()
				cfg.Tokens = secret.NewTokens(tt.token)
				request := asked(t, http.MethodGet, page, tt.local, tt.host)
				if tt.given != "" {
					request.Header.Set("Authorization", "Bearer "+tt.given)
				}
				recorder := httptest.NewRecorder()
				ops.Handler(cfg).ServeHTTP(recorder, request)
				if recorder.Code != tt.want {
					t.Errorf("%s: %d %s, want %d", page, recorder.Code, recorder.Body, tt.want)
				}
			}
		})
	}
}

// inChild is set in the process that has a secret on its command line.
const inChild = "PROFILES_OF_A_PROCESS_WITH_SECRETS"

// No profile shows what the command line says, where tokens may be.
func TestProfilesShowNoCommandLine(t *testing.T) {
	t.Parallel()
	const canary = "canary-api-token"
	if os.Getenv(inChild) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0],
			"-test.run=^TestProfilesShowNoCommandLine$", "-test.v", "--", "--api-tokens="+canary)
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
	targets := []string{
		"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/profile?seconds=1",
		"/debug/pprof/trace?seconds=0.1",
	}
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
