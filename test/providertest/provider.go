package providertest

import (
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// Provider responds to calls as its script says, and notes them. It is safe for concurrent use.
type Provider struct {
	over chan struct{} // closed when the test ends, so that whoever hangs ends

	mu     sync.Mutex
	script []*active
	met    map[place]met
	calls  []Call
	more   chan struct{} // closed at the next call
}

// place is a step of calls to a target.
type place struct {
	step   Step
	target string
}

// newProvider makes a provider without a server.
func newProvider(script []Rule) *Provider {
	p := &Provider{over: make(chan struct{}), met: map[place]met{}, more: make(chan struct{})}
	p.Follow(script...)
	return p
}

// Follow replaces the script. What was met stays known.
func (p *Provider) Follow(script ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = nil
	for _, rule := range script {
		p.script = append(p.script, &active{Rule: rule})
	}
}

// respond notes a call and finds the reply to it.
func (p *Provider) respond(c Call) Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.At = time.Now()
	at := place{c.Step, c.Target}
	m := p.met[at]
	if m.calls++; m.calls == 1 {
		m.first = c.At
	}
	p.met[at] = m
	for _, rule := range p.script {
		if rule.holds(c, m) {
			c.Reply = rule.Reply
			break
		}
	}
	p.calls = append(p.calls, c)
	close(p.more)
	p.more = make(chan struct{})
	return c.Reply
}

// Calls lists the calls at a step up to now.
func (p *Provider) Calls(step Step) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.calls), func(c Call) bool { return c.Step != step })
}

// Await waits until there were n calls at a step, and returns them. The test's end ends it.
func (p *Provider) Await(tb testing.TB, step Step, n int) []Call {
	tb.Helper()
	for {
		p.mu.Lock()
		more := p.more
		p.mu.Unlock()
		if calls := p.Calls(step); len(calls) >= n {
			return calls
		}
		select {
		case <-more:
		case <-tb.Context().Done():
			tb.Fatalf("the provider got %d calls, want %d", len(p.Calls(step)), n)
		}
	}
}

// wait holds a reply back. It is false when the caller is gone or the test has ended.
func (p *Provider) wait(d time.Duration, gone <-chan struct{}) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
	case <-p.over:
	}
	return false
}

// certificate is that of httptest, for 127.0.0.1, [::1] and example.com.
var certificate = sync.OnceValue(func() tls.Certificate {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return server.TLS.Certificates[0]
})

func rootsPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate().Certificate[0]})
}

// WriteRoots writes the roots into a file. A program whose environment names it in SSL_CERT_FILE trusts all servers.
func WriteRoots(path string) error { return os.WriteFile(path, rootsPEM(), 0o600) }
