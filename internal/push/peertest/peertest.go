// Package peertest checks that libraries of other authors, in another language, understand what pacer sends: http_ece
// and jose for Web Push, standardwebhooks for webhooks. They run in a process of Node.js that the test starts. `make
// install-servers` installs what it needs.
package peertest

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pacer-notify/pacer/test/module"
)

// Peer is the process. It is safe for concurrent use.
type Peer struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

// Request asks the process to read what was sent. Kind is webpush or webhook; testdata/peer.mjs says which fields
// belong to which kind.
type Request struct {
	Kind string `json:"kind"`
	// Body is what was posted.
	Body []byte `json:"body"`

	// PrivateKey and AuthSecret are the browser's, in base64url. Authorization is the header, Audience the origin of
	// the push service.
	PrivateKey    string `json:"privateKey,omitempty"`
	AuthSecret    string `json:"authSecret,omitempty"`
	Authorization string `json:"authorization,omitempty"`
	Audience      string `json:"audience,omitempty"`

	// Secret is the receiver's, or a public key. Headers are those of the call, with names in lower case.
	Secret  string            `json:"secret,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Response is what the library made of it. Error is empty when the library accepted it.
type Response struct {
	Plain, Subject, Error string
}

// Start starts the process, which ends with the test. A machine without Node.js or the libraries fails the test.
func Start(tb testing.TB) *Peer {
	tb.Helper()
	dir := module.Path(tb, "internal/push/peertest/testdata")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "http_ece")); err != nil {
		tb.Fatalf("the libraries of %s are not installed: run make install-servers", dir)
	}
	process := exec.CommandContext(tb.Context(), "node", "peer.mjs")
	process.Dir, process.Stderr = dir, tb.Output()
	in, err := process.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := process.Start(); err != nil {
		tb.Fatalf("start node: %v; run make install-servers", err)
	}
	tb.Cleanup(func() {
		_ = in.Close()     // ends the process
		_ = process.Wait() // it may have been killed with the test's context
	})
	return &Peer{in: in, out: bufio.NewReader(out)}
}

// Ask sends one request and returns the response.
func (p *Peer) Ask(tb testing.TB, r Request) Response {
	tb.Helper()
	line, err := json.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		tb.Fatalf("ask the peer: %v", err)
	}
	reply, err := p.out.ReadBytes('\n')
	if err != nil {
		tb.Fatalf("read the peer's response: %v", err)
	}
	var response Response
	if err := json.Unmarshal(reply, &response); err != nil {
		tb.Fatalf("read the peer's response %s: %v", reply, err)
	}
	return response
}
