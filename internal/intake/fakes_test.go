package intake_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// now is the moment of every acceptance here.
var now = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

var errAway = errors.New("the store is away")

// store keeps notifications in memory and behaves like the real stores. It fails where a test tells it to.
type store struct {
	unstorable string // the title that it can't keep

	known   map[string]*notification.Notification
	accepts [][]string // ids of each call of Accept
	fresh   []string   // ids that were newly accepted
	fail    string     // the method that fails
	views   atomic.Int64
}

func newStore() *store { return &store{known: map[string]*notification.Notification{}} }

func (s *store) failing(method string) error {
	if s.fail == method {
		return errAway
	}
	return nil
}

// holder is the notification that has an idempotency key.
func (s *store) holder(key string) *notification.Notification {
	for _, n := range s.known {
		if key != "" && n.IdempotencyKey == key {
			return n
		}
	}
	return nil
}

func (s *store) Holder(_ context.Context, key string) (*notification.Notification, error) {
	if err := s.failing("holder"); err != nil {
		return nil, err
	}
	return s.holder(key), nil
}

func (s *store) Accept(_ context.Context, batch []*notification.Notification) ([]intake.Accepted, error) {
	if err := s.failing("accept"); err != nil {
		return nil, err
	}
	var ids []string
	accepted := make([]intake.Accepted, len(batch))
	for i, n := range batch {
		ids = append(ids, n.ID)
		first, known := s.known[n.ID]
		if holder := s.holder(n.IdempotencyKey); holder != nil {
			first, known = holder, true
		}
		switch {
		case n.Title != "" && n.Title == s.unstorable:
			accepted[i] = intake.Accepted{Err: intake.ErrUnstorable}
			continue
		case known && first.UserID != n.UserID:
			accepted[i] = intake.Accepted{Known: true, First: first}
			continue
		case !known:
			first = new(*n)
			n.CreatedAt, first.CreatedAt = now, now
			s.known[n.ID] = first
			s.fresh = append(s.fresh, n.ID)
		}
		accepted[i] = intake.Accepted{Known: known}
		if known {
			accepted[i].First = first
		}
	}
	s.accepts = append(s.accepts, ids)
	return accepted, nil
}

func (s *store) View(_ context.Context, id string) (*notification.View, error) {
	s.views.Add(1)
	if err := s.failing("view"); err != nil {
		return nil, err
	}
	n, known := s.known[id]
	if !known {
		return nil, notification.ErrNotFound
	}
	return &notification.View{Notification: *n, Status: notification.StatusQueued}, nil
}

// rules know the categories default and chat, no channel fcm, and one bad target.
type rules struct{}

func (rules) CheckCategory(name string) error {
	if name == "default" || name == "chat" {
		return nil
	}
	return &notification.FieldError{Field: "category", Message: "is not named in the policy"}
}

func (rules) MaxContent(notification.Channel) int { return notification.MaxContentBytes }

func (rules) CheckDelivery(n *notification.Notification) error {
	if n.Channel == "fcm" {
		return &notification.FieldError{Field: "channel", Message: "is not a configured channel"}
	}
	if n.To == "nowhere" {
		return &notification.FieldError{Field: "to", Message: "is no address"}
	}
	return nil
}

// bench is an intake with a fake store and fake rules around it.
type bench struct {
	*intake.Intake
	store    *store
	clock    time.Time
	accepted []string // categories that were reported
	log      bytes.Buffer
}

func newBench() *bench {
	b := &bench{store: newStore(), clock: now}
	b.Intake = intake.New(intake.Config{
		Store: b.store, Rules: rules{}, Clock: func() time.Time { return b.clock },
		Accepted: func(category string) { b.accepted = append(b.accepted, category) },
		Log:      slog.New(slog.NewTextHandler(&b.log, nil)),
	})
	return b
}

// accept accepts a batch that the store takes, and returns the results.
func (b *bench) accept(t *testing.T, batch ...intake.Request) []intake.Result {
	t.Helper()
	results, err := b.Accept(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(batch) {
		t.Fatalf("%d requests give %d results", len(batch), len(results))
	}
	return results
}

// request has only what is required, and a title.
func request(id, title string) intake.Request {
	return intake.Request{Notification: notification.Notification{ID: id, UserID: "u-1", Title: title}}
}

// keyed is a request with an idempotency key and without an id.
func keyed(key, title string) intake.Request {
	r := request("", title)
	r.IdempotencyKey = key
	return r
}
