package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// opsBehindTLS serves ready under a prefix to whoever has the token, and gives its URL and its certificate's file.
func opsBehindTLS(t *testing.T) (url, ca string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pacer/readyz" || r.Header.Get("Authorization") != "Bearer canary" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("no such page, or no token: " + r.URL.Path))
		}
	}))
	t.Cleanup(server.Close)
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	return server.URL + "/pacer", written(t, "ca.pem", string(pem.EncodeToMemory(block)))
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A command reaches ops pages behind a proxy: by URL, over TLS, with a token that no list of processes shows.
func TestOpsPagesBehindAProxy(t *testing.T) {
	t.Parallel()
	url, ca := opsBehindTLS(t)
	token := written(t, "token", "canary\n")
	if got := ask(t, "healthcheck", "--ops-listen", url, "--ops-ca", ca, "--ops-token-file", token); got.code != 0 {
		t.Errorf("with all that it takes: %+v", got)
	}
	if got := ask(t, "healthcheck", "--ops-listen", url, "--ops-token-file", token); got.code != 1 ||
		!strings.Contains(got.err, "certificate") {
		t.Errorf("with an unknown authority: %+v", got)
	}
	if got := ask(t, "healthcheck", "--ops-listen", url, "--ops-ca", ca); got.code != 1 ||
		!strings.Contains(got.err, "no token") {
		t.Errorf("without a token: %+v", got)
	}
	got := ask(t, "healthcheck", "--ops-listen", url, "--ops-ca", ca, "--ops-token", "canary")
	if got.code != 2 || !strings.Contains(got.err, "--ops-token-file") || strings.Contains(got.err, "canary") {
		t.Errorf("with the token on the command line: %+v", got)
	}
}

// An action that a proxy redirects would arrive as a look; so the redirection is told instead.
func TestARedirectionIsTold(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.RedirectHandler("https://ops.example.com/", http.StatusMovedPermanently))
	t.Cleanup(server.Close)
	got := ask(t, "cancel", "n1", "--yes", "--ops-listen", server.URL)
	if got.code != 1 || !strings.Contains(got.err, "redirects to https://ops.example.com/") {
		t.Errorf("%+v", got)
	}
}
