package webhook_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webhook"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	pushtest.Run(t, subject)
}

// provider is a webhook target that does as told.
type provider struct {
	mu     sync.Mutex
	answer pushtest.Answer
	calls  []pushtest.Call
	gone   chan struct{} // ends what hangs
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.calls = append(p.calls, pushtest.Call{Identity: r.Header.Get("webhook-id")})
	answer := p.answer
	p.mu.Unlock()
	switch answer {
	case pushtest.Refuses:
		w.WriteHeader(http.StatusBadRequest)
	case pushtest.Fails:
		w.WriteHeader(http.StatusBadGateway)
	case pushtest.Throttles:
		w.Header().Set("Retry-After", strconv.Itoa(int(pushtest.RetryAfter/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
	case pushtest.TargetGone:
		w.WriteHeader(http.StatusGone)
	case pushtest.Hangs:
		select {
		case <-p.gone:
		case <-r.Context().Done():
		}
	case pushtest.HangsUp:
		panic(http.ErrAbortHandler)
	case pushtest.Delivers, pushtest.Unreachable:
	}
}

func subject(tb testing.TB) pushtest.Subject {
	tb.Helper()
	p := &provider{gone: make(chan struct{})}
	server := httptest.NewServer(p)
	tb.Cleanup(server.Close)
	tb.Cleanup(func() { close(p.gone) })
	sender, err := webhook.New(webhook.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = sender.Close() })
	target := &redirected{sender, server.URL + "/c4n4ry?token=c4n4ry", unreachable(tb), p}
	return pushtest.Subject{
		Sender: target, Channel: notification.ChannelWebhook, Target: server.URL + "/c4n4ry?token=c4n4ry",
		BadTargets: []string{"", "example.com", "ftp://example.com/", "http://10.0.0.1/", "http://user:secret@example.com/"},
		Answer: func(a pushtest.Answer) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.answer = a
		},
		Answers: []pushtest.Answer{
			pushtest.Refuses, pushtest.Fails, pushtest.Throttles, pushtest.TargetGone, pushtest.Hangs, pushtest.HangsUp, pushtest.Unreachable,
		},
		Calls: func() []pushtest.Call {
			p.mu.Lock()
			defer p.mu.Unlock()
			return append([]pushtest.Call{}, p.calls...)
		},
		Logged: func() string { return "" }, // it has no log
	}
}

// unreachable is an address at which nobody listens.
func unreachable(tb testing.TB) string {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String() + "/c4n4ry?token=c4n4ry"
}
