package push_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// pigeons is the smallest sender: it delivers by pigeon, which no content is too long for.
type pigeons struct{ awake bool }

// Send makes one attempt, and says of each failure what it means.
func (p pigeons) Send(ctx context.Context, m push.Message) error {
	if err := p.CheckTarget(m.To); err != nil {
		return &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return &push.Error{Class: push.Transient, Code: "cancelled", Unsent: true, Err: err}
	}
	if !p.awake {
		return &push.Error{Class: push.Throttled, Code: "asleep", RetryAfter: time.Hour, Unsent: true}
	}
	return nil
}

// CheckTarget looks at a target before anything is accepted for it. It does not repeat the target.
func (pigeons) CheckTarget(to string) error {
	if to == "" {
		return errors.New("must be a loft")
	}
	return nil
}

// CheckContent takes everything.
func (pigeons) CheckContent(*notification.Notification) error { return nil }

func ExampleSender() {
	m := push.Message{Notification: &notification.Notification{ID: "n1", To: "north"}, Attempt: 1}
	for _, sender := range []push.Sender{pigeons{awake: true}, pigeons{awake: false}} {
		failure := push.Classify(sender.Send(context.Background(), m))
		if failure == nil {
			fmt.Println("delivered")
			continue
		}
		fmt.Println(failure, "again after", failure.RetryAfter, "counts:", failure.Counts())
	}
	// Output:
	// delivered
	// throttled (asleep) again after 1h0m0s counts: false
}
