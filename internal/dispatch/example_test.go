package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// memory is the smallest store there can be: one user, one rule (a minimum gap), nothing that outlives the process.
type memory struct {
	gap     time.Duration
	pending chan struct{}
	settled sync.WaitGroup

	mu      sync.Mutex
	backlog []*notification.Notification
	woken   bool      // a wake-up stands in the queue
	next    time.Time // from then on the gap allows one more
}

// accept puts a notification into the backlog, and a wake-up into the queue.
func (m *memory) accept(title string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backlog = append(m.backlog, &notification.Notification{
		ID: title, UserID: "ada", Category: "chat", Title: title, Channel: notification.ChannelLog,
		CreatedAt: time.Now(),
	})
	m.settled.Add(1)
	m.woken = true
	select {
	case m.pending <- struct{}{}:
	default:
	}
}

// Pending tells that a wake-up stands in the queue.
func (m *memory) Pending(int) <-chan struct{} { return m.pending }

// Archive is never called: nobody else puts anything into this queue.
func (*memory) Archive(context.Context, int, dispatch.Task, error) error { return nil }

// Take gives the user's wake-up out, and its notifications, one by one.
func (m *memory) Take(_ context.Context, r dispatch.TakeRequest) (dispatch.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var reply dispatch.TakeResult
	for range r.Wakeups {
		reply.Results = append(reply.Results, m.take())
	}
	if r.Pull > 0 && m.woken {
		m.woken = false
		reply.Pulled = []dispatch.Wakeup{{UserID: "ada"}}
		reply.PulledCount = 1
	}
	return reply, nil
}

// take lets the head of the backlog go when the gap has passed. The wake-up is held for the next.
func (m *memory) take() dispatch.WakeupResult {
	var taken dispatch.WakeupResult
	now := time.Now()
	if len(m.backlog) > 0 && !now.Before(m.next) {
		taken.Grants = []*dispatch.Grant{{
			Backlog: dispatch.BacklogOf("ada", "chat", 1), Notification: m.backlog[0], Attempt: 1, AdmittedAt: now,
		}}
		m.backlog, m.next = m.backlog[1:], now.Add(m.gap)
	}
	if len(m.backlog) > 0 {
		taken.Held, taken.After, taken.Rule = true, m.next.Sub(now), "gap "+m.gap.String()
	}
	return taken
}

// Claim has nothing to add.
func (*memory) Claim(context.Context, *dispatch.Grant) (bool, error) { return true, nil }

// Settle has nothing to do here: what was taken off the backlog was delivered.
func (m *memory) Settle(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
	m.settled.Done()
	return dispatch.Settlement{}, nil
}

// Extend is never called: every settlement succeeds.
func (*memory) Extend(context.Context, *dispatch.Grant) error { return nil }

// printer is a sender for people.
type printer struct{}

func (printer) CheckTarget(string) error { return nil }

// CheckContent implements push.Sender.
func (printer) CheckContent(*notification.Notification) error { return nil }

func (printer) Send(_ context.Context, m push.Message) error {
	fmt.Printf("to %s: %s\n", m.UserID, m.Title)
	return nil
}

// Three notifications of one user, with a gap of 50 ms between them. One wake-up stands for all of them.
func ExampleDispatcher() {
	store := &memory{gap: 50 * time.Millisecond, pending: make(chan struct{}, 1)}
	dispatcher := dispatch.New(dispatch.Config{}, store, store, push.Registry{notification.ChannelLog: printer{}})

	start := time.Now()
	for _, title := range []string{"first", "second", "third"} {
		store.accept(title)
	}
	dispatcher.Start()
	store.settled.Wait()
	dispatcher.Stop()
	fmt.Println("the gap was kept:", time.Since(start) >= 100*time.Millisecond)

	// Output:
	// to ada: first
	// to ada: second
	// to ada: third
	// the gap was kept: true
}
