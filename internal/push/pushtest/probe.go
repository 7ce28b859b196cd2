package pushtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// probe runs a case: it makes notifications, sends them and reports what is wrong.
type probe struct {
	testing.TB
	Subject
	Features

	provider *Provider
	sender   push.Sender
	log      *journal
	end      func() // tells the fake that the case is over
	close    func() // closes the sender

	mu     sync.Mutex
	made   int
	ledger map[string]*account // by identity
}

// account is what the sender said of one notification's attempts.
type account struct {
	id                       string
	sends, delivered, unsent int
}

func newProbe(tb testing.TB, f Features, subject func(testing.TB, *Provider) Subject) *probe {
	tb.Helper()
	p := &probe{TB: tb, Features: f, provider: newProvider(), log: &journal{}, ledger: map[string]*account{}}
	p.Subject = subject(tb, p.provider)
	p.end = sync.OnceFunc(func() { close(p.provider.over) })
	tb.Cleanup(p.end) // before the fake's own end, which may wait for its calls
	if p.Identity == nil {
		p.Identity = func(id string) string { return id }
	}
	p.sender = p.New(p.logger())
	p.close = sync.OnceFunc(func() { p.closeOne(p.sender) })
	tb.Cleanup(p.close)
	return p
}

// logger makes a logger that writes everything into the journal.
func (p *probe) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug - 4, AddSource: true}))
}

// closeOne closes a sender that has a Close.
func (p *probe) closeOne(sender push.Sender) {
	p.Helper()
	if closer, ok := sender.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			p.Errorf("close the sender: %v", err)
		}
	}
}

// finish closes the sender and checks what must hold at the end of every case: each call is accounted for, and the logs
// show no secret.
func (p *probe) finish() {
	p.Helper()
	p.end()
	p.close()
	if p.Drain != nil {
		p.Drain()
	}
	p.balance()
	if secret, found := p.leak(p.log.String()); found {
		p.Errorf("the log shows %q", secret)
	}
}

// balance compares what the sender reported with what the provider got. A delivered attempt is exactly one call, an
// unsent one is none, and any other is at most one.
func (p *probe) balance() {
	p.Helper()
	calls := map[string]int{}
	for _, c := range p.provider.received() {
		calls[c.Identity]++
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for identity, n := range calls {
		if p.ledger[identity] == nil {
			p.Errorf("%d calls with the identity %q, which no notification has", n, identity)
		}
	}
	for identity, a := range p.ledger {
		if n := calls[identity]; n < a.delivered || n > a.sends-a.unsent {
			p.Errorf("%d calls for %s, after %d attempts of which %d were delivered and %d unsent",
				n, a.id, a.sends, a.delivered, a.unsent)
		}
	}
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, line...)
	return len(line), nil
}

// String is all that was logged.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.text)
}

// message makes another notification, with content that must not show.
func (p *probe) message() push.Message {
	p.mu.Lock()
	p.made++
	number := strconv.Itoa(p.made)
	p.mu.Unlock()
	return push.Message{
		Notification: &notification.Notification{
			ID: "pushtest-" + number, UserID: "ada", Category: "chat", Channel: p.Channel.Name, To: p.Target,
			Title: canaries[0] + " " + number, Body: canaries[1] + " " + number,
			Data:     json.RawMessage(`{"key": "` + canaries[2] + `", "number": "` + number + `"}`),
			Priority: notification.PriorityNormal, CreatedAt: time.Unix(1_800_000_000, 0),
		},
		Attempt: 1, AdmittedAt: time.UnixMicro(1_800_000_001_234_567),
	}
}

// send sends and waits, checks what must hold for every outcome, and enters the outcome into the ledger.
func (p *probe) send(ctx context.Context, m push.Message) *push.Error {
	p.Helper()
	return p.sendOn(ctx, p.sender, m)
}

func (p *probe) sendOn(ctx context.Context, sender push.Sender, m push.Message) *push.Error {
	p.Helper()
	before := *m.Notification
	before.Data = bytes.Clone(m.Data)
	result := make(chan error, 1)
	go func() { result <- sender.Send(ctx, m) }()
	timer := time.NewTimer(p.Patience)
	defer timer.Stop()
	select {
	case err := <-result:
		if diff := cmp.Diff(before, *m.Notification); diff != "" {
			p.Errorf("the sender changed the notification (-before +after):\n%s", diff)
		}
		outcome := p.outcome(err)
		p.book(m, outcome)
		return outcome
	case <-timer.C:
		p.Errorf("the sender does not return")
		return &push.Error{Code: "never_returned"}
	}
}

// start sends without waiting. The outcome can be received once.
func (p *probe) start(ctx context.Context, m push.Message) <-chan *push.Error {
	return p.startOn(ctx, p.sender, m)
}

func (p *probe) startOn(ctx context.Context, sender push.Sender, m push.Message) <-chan *push.Error {
	result := make(chan *push.Error, 1)
	go func() { result <- p.sendOn(ctx, sender, m) }()
	return result
}

func (p *probe) book(m push.Message, outcome *push.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	identity := p.Identity(m.ID)
	a := p.ledger[identity]
	if a == nil {
		a = &account{id: m.ID}
		p.ledger[identity] = a
	}
	if a.id != m.ID {
		p.Errorf("%s and %s have the same identity %q", a.id, m.ID, identity)
	}
	a.sends++
	if outcome == nil {
		a.delivered++
	} else if outcome.Unsent {
		a.unsent++
	}
}

// deliver sends while the provider accepts everything, and checks that the message is delivered.
func (p *probe) deliver(m push.Message) {
	p.Helper()
	p.provider.respondWith(Response{})
	if e := p.send(p.Context(), m); e != nil {
		p.Fatalf("send %s: %v, want delivered", m.ID, e)
	}
}

// want checks the outcome of a call that the provider has read.
func (p *probe) want(e *push.Error, class push.Class, retryAfter time.Duration) {
	p.Helper()
	if retryAfter == 0 && class == push.Throttled {
		retryAfter = p.Unnamed
	}
	switch {
	case e == nil:
		p.Errorf("delivered, want %s", class)
	case e.Class != class || e.RetryAfter != retryAfter || e.Unsent:
		p.Errorf("got %s, again after %s, unsent %t; want %s, again after %s, sent",
			e, e.RetryAfter, e.Unsent, class, retryAfter)
	}
}

// wantUnsent checks an outcome without a call.
func (p *probe) wantUnsent(e *push.Error, class push.Class) {
	p.Helper()
	switch {
	case e == nil:
		p.Errorf("delivered, want %s, unsent", class)
	case e.Class != class || !e.Unsent:
		p.Errorf("got %s, unsent %t; want %s, unsent", e, e.Unsent, class)
	}
}

// wantCalls checks the number of calls since the beginning.
func (p *probe) wantCalls(n int) {
	p.Helper()
	if calls := p.provider.received(); len(calls) != n {
		p.Errorf("%d calls, want %d", len(calls), n)
	}
}

// show prints a value with all verbs that could show a secret.
func show(value any) string { return fmt.Sprintf("%v %+v %#v %q", value, value, value, value) }
