package pushtest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// Kind is what becomes of a call, in words that fit every channel.
type Kind uint8

const (
	// Delivered: the provider accepts the notification.
	Delivered Kind = iota
	// Refused: the provider will never accept it, whatever the target, since the request or the credentials are wrong.
	Refused
	// Failing: the provider can't accept it at the moment.
	Failing
	// Throttled: the provider asks to slow down.
	Throttled
	// Gone: the provider no longer knows the target.
	Gone
	// Hangs: the provider has read the call and says nothing until the caller hangs up or [Provider.Over] is closed.
	Hangs
	// HangsUp: the provider has read the call and ends the connection without a response.
	HangsUp
	// Unreachable: nobody listens. No fake has to do this; the suite calls [Subject.Unplug].
	Unreachable
)

// String is the kind's name in the names of cases.
func (k Kind) String() string {
	names := [...]string{"Delivered", "Refused", "Failing", "Throttled", "Gone", "Hangs", "HangsUp", "Unreachable"}
	if int(k) < len(names) {
		return names[k]
	}
	return "Invalid"
}

// class is the class that the sender has to report.
func (k Kind) class() push.Class {
	switch k {
	case Refused:
		return push.Permanent
	case Failing, Unreachable:
		return push.Transient
	case Throttled:
		return push.Throttled
	case Gone:
		return push.TargetGone
	case Hangs, HangsUp:
		return push.Ambiguous
	case Delivered:
	}
	return 0
}

// Response is how the provider responds to a call. Where the channel allows, a refusal should repeat what was sent, as
// providers do. Then a sender that passes the text on is found to show secrets.
type Response struct {
	Kind Kind
	// RetryAfter is when to retry, in whole seconds; 0 when the provider does not say.
	RetryAfter time.Duration
}

// Call is one delivery as the provider read it.
type Call struct {
	// Identity tells the notification from all others, such as its id in a header.
	Identity string
	// Title and Body are as the user would see them. They are compared only with the feature Content.
	Title, Body string
	// Data is JSON. It is compared only with the feature Data.
	Data []byte
}

// Provider tells a channel's fake how to respond, and keeps what was sent. It is safe for concurrent use.
type Provider struct {
	over     chan struct{}
	contacts atomic.Int64

	mu     sync.Mutex
	script func(Call) Response
	calls  []Call
	more   chan struct{} // closed at the next call
}

func newProvider() *Provider {
	return &Provider{
		over: make(chan struct{}), more: make(chan struct{}),
		script: func(Call) Response { return Response{} },
	}
}

// Receive takes a call that the fake has read to its end, and returns how to respond. It may block for some time.
func (p *Provider) Receive(c Call) Response {
	p.Contact()
	p.mu.Lock()
	p.calls = append(p.calls, c)
	close(p.more)
	p.more = make(chan struct{})
	script := p.script
	p.mu.Unlock()
	return script(c)
}

// Contact notes that the sender asked for something: a connection, the lookup of a name, a token. Receive notes it too.
func (p *Provider) Contact() { p.contacts.Add(1) }

// Over is closed at the end of a case. Then fakes that hang must end.
func (p *Provider) Over() <-chan struct{} { return p.over }

// respondWith sets the response to every call from now on.
func (p *Provider) respondWith(r Response) { p.follow(func(Call) Response { return r }) }

// follow sets the script that responds from now on. It is called for several calls at once.
func (p *Provider) follow(script func(Call) Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = script
}

// received lists the calls up to now.
func (p *Provider) received() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// await waits until there were n calls, for as long as patience allows, and reports whether there were.
func (p *Provider) await(n int, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		p.mu.Lock()
		count, more := len(p.calls), p.more
		p.mu.Unlock()
		if count >= n {
			return true
		}
		select {
		case <-more:
		case <-timer.C:
			return false
		}
	}
}
