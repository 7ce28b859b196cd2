package pushtest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// Kind is what becomes of a call, in terms that every channel has.
type Kind uint8

const (
	// Delivered: the provider takes the notification.
	Delivered Kind = iota
	// Refused: it never will, whatever the target: the request or the credentials are wrong.
	Refused
	// Failing: it can't at the moment.
	Failing
	// Throttled: it asks to slow down.
	Throttled
	// Gone: it knows the target no more.
	Gone
	// Hangs: it has read the call and says nothing, until the caller hangs up or [Provider.Over] says so.
	Hangs
	// HangsUp: it has read the call and ends the connection without an answer.
	HangsUp
	// Unreachable: nobody listens. No fake has to answer so; the suite calls [Subject.Unplug].
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

// class is what the sender has to say of it.
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

// Answer is how the provider answers a call. Where the channel allows, a refusal should repeat what it was sent, as
// providers do, so that a sender that passes it on shows secrets.
type Answer struct {
	Kind Kind
	// RetryAfter is when to come again, in whole seconds; 0 is not said.
	RetryAfter time.Duration
}

// Call is one delivery as the provider read it.
type Call struct {
	// Identity is what tells the notification from all others, such as its id in a header.
	Identity string
	// Title and Body as the user would see them; not compared where Features says that there is no Content.
	Title, Body string
	// Data as JSON; not compared where Features says that there is none.
	Data []byte
}

// Provider tells a channel's fake how to answer, and keeps what it was sent. It is safe for concurrent use.
type Provider struct {
	over     chan struct{}
	contacts atomic.Int64

	mu     sync.Mutex
	answer func(Call) Answer
	calls  []Call
	more   chan struct{} // closed at the next call
}

func newProvider() *Provider {
	return &Provider{
		over: make(chan struct{}), more: make(chan struct{}),
		answer: func(Call) Answer { return Answer{} },
	}
}

// Receive takes a call that was read in whole, and tells how to answer it. It may take its time.
func (p *Provider) Receive(c Call) Answer {
	p.Contact()
	p.mu.Lock()
	p.calls = append(p.calls, c)
	close(p.more)
	p.more = make(chan struct{})
	answer := p.answer
	p.mu.Unlock()
	return answer(c)
}

// Contact notes that somebody asked something: a connection, the lookup of a name, a token. Receive notes it too.
func (p *Provider) Contact() { p.contacts.Add(1) }

// Over is closed at the end of a case; fakes that hang end then.
func (p *Provider) Over() <-chan struct{} { return p.over }

// answers sets the answer to every call from now on.
func (p *Provider) answers(a Answer) { p.script(func(Call) Answer { return a }) }

// script sets what answers from now on. It is called for several calls at once.
func (p *Provider) script(answer func(Call) Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// received lists the calls up to now.
func (p *Provider) received() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// await waits until there were n calls, at most for a time, and tells whether there were.
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
