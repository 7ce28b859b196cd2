package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// memory is the smallest record there can be: one line, one rule (a minimum gap), nothing that outlives the process.
type memory struct {
	gap time.Duration

	mu   sync.Mutex
	line []*notification.Notification
	next time.Time // from then on the gap allows one more
}

// Take lets the head of the line run when the gap has passed, and else says how long to wait.
func (m *memory) Take(_ context.Context, q dispatch.Question) (dispatch.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.line) == 0 {
		return dispatch.Answer{}, nil
	}
	now := time.Now()
	if wait := m.next.Sub(now); wait > 0 {
		return dispatch.Answer{Wait: &dispatch.Wait{For: wait, Rule: "gap " + m.gap.String()}}, nil
	}
	head := m.line[0]
	m.line, m.next = m.line[1:], now.Add(m.gap)
	return dispatch.Answer{Grant: &dispatch.Grant{
		Mailbox: q.Mailbox, Notification: head, Attempt: 1, AdmittedAt: now, Tick: q.Tick,
	}}, nil
}

// Settle has nothing to do here: what was taken off the line was delivered.
func (m *memory) Settle(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
	return dispatch.Settlement{}, nil
}

// Extend is never called: every settlement succeeds.
func (*memory) Extend(context.Context, *dispatch.Grant) error { return nil }

// Enqueue is never called: this record asks for no extra ticks.
func (m *memory) Enqueue(context.Context, ...dispatch.Alarm) error { return nil }

// printer is a sender for people.
type printer struct{}

func (printer) CheckTarget(string) error { return nil }

// CheckContent implements push.Sender.
func (printer) CheckContent(*notification.Notification) error { return nil }

func (printer) Send(_ context.Context, m push.Message) error {
	fmt.Printf("to %s: %s\n", m.UserID, m.Title)
	return nil
}

// Two notifications of one user, a tick for each, and a gap of 50 ms between them: the second tick is held in place. Then
// the gap grows to an hour, which is longer than a tick is held: the third goes back to the queue.
func ExampleDispatcher() {
	record := &memory{gap: 50 * time.Millisecond}
	dispatcher := dispatch.New(dispatch.Config{}, record, record, push.Registry{notification.ChannelLog: printer{}})

	handle := func(title string) error {
		n := &notification.Notification{ID: title, UserID: "ada", Title: title, Channel: notification.ChannelLog, CreatedAt: time.Now()}
		record.mu.Lock()
		record.line = append(record.line, n)
		record.mu.Unlock()
		return dispatcher.Handle(context.Background(), dispatch.Tick{ID: n.ID, Mailbox: dispatch.MailboxOf("ada", "chat", 16)})
	}

	start := time.Now()
	fmt.Println(handle("first"))
	record.gap = time.Hour
	fmt.Println(handle("second"))
	fmt.Println("the gap was kept:", time.Since(start) >= 50*time.Millisecond)

	deferral, later := errors.AsType[*dispatch.DeferralError](handle("third"))
	fmt.Println("to come again later:", later, deferral.Until.After(start.Add(59*time.Minute)))

	// Output:
	// to ada: first
	// <nil>
	// to ada: second
	// <nil>
	// the gap was kept: true
	// to come again later: true true
}
