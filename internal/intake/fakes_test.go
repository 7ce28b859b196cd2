package intake_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// now is the moment of every acceptance here.
var now = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

var errAway = errors.New("the store is away")

// reservation is an idempotency key in the store.
type reservation struct {
	Fingerprint, ID string
	Pending         bool          // not committed yet
	Over            bool          // pending for so long that a repeat may take it over
	Life            time.Duration // as asked for last
	At              time.Time     // when its notification was accepted, once it is committed
}

// store keeps notifications in memory and behaves like the real stores. It fails where a test tells it to.
type store struct {
	takes      time.Duration // how long an answer about a key takes
	unstorable string        // the title that it can't keep

	mu      sync.Mutex // of keys
	known   map[string]*notification.Notification
	keys    map[string]*reservation
	accepts [][]string   // ids of each call of Accept
	fresh   []string     // ids that were newly accepted
	fail    string       // the method that fails
	asked   atomic.Int64 // how often it has failed
	views   atomic.Int64
}

func newStore() *store {
	return &store{known: map[string]*notification.Notification{}, keys: map[string]*reservation{}}
}

func (s *store) failing(method string) error {
	if s.fail == method {
		s.asked.Add(1)
		return errAway
	}
	return nil
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
		switch {
		case n.Title != "" && n.Title == s.unstorable:
			accepted[i] = intake.Accepted{Err: intake.ErrUnstorable}
			continue
		case known && first.UserID != n.UserID:
			accepted[i] = intake.Accepted{Known: true, First: first}
			continue
		case !known:
			first = new(*n)
			first.CreatedAt = now
			s.known[n.ID] = first
			s.fresh = append(s.fresh, n.ID)
		}
		accepted[i] = intake.Accepted{At: first.CreatedAt, Known: known}
		if known {
			accepted[i].First = first
		}
	}
	s.accepts = append(s.accepts, ids)
	return accepted, nil
}

func (s *store) Reserve(_ context.Context, keys []intake.Key) ([]intake.Reservation, error) {
	<-time.After(s.takes)
	if err := s.failing("reserve"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reservations := make([]intake.Reservation, len(keys))
	for i, k := range keys {
		reservations[i] = s.reserve(k)
	}
	return reservations, nil
}

func (s *store) reserve(k intake.Key) intake.Reservation {
	r := s.reserved(k.Key, k.Fingerprint)
	if _, found := s.keys[k.Key]; !found {
		s.keys[k.Key] = &reservation{Fingerprint: k.Fingerprint, ID: k.ID, Pending: true, Life: k.Life}
		r.ID = k.ID
	}
	return r
}

func (s *store) Reserved(_ context.Context, key, fingerprint string) (intake.Reservation, error) {
	if err := s.failing("reserved"); err != nil {
		return intake.Reservation{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserved(key, fingerprint), nil
}

// reserved says what the store knows of a key.
func (s *store) reserved(key, fingerprint string) intake.Reservation {
	held, found := s.keys[key]
	switch {
	case !found:
		return intake.Reservation{Claim: intake.ClaimNew}
	case held.Fingerprint != fingerprint:
		return intake.Reservation{Claim: intake.ClaimOther, ID: held.ID}
	case held.Pending && held.Over:
		return intake.Reservation{Claim: intake.ClaimNew, ID: held.ID}
	case held.Pending:
		return intake.Reservation{Claim: intake.ClaimBusy, ID: held.ID}
	}
	return intake.Reservation{Claim: intake.ClaimDone, ID: held.ID, At: held.At}
}

func (s *store) Commit(_ context.Context, keys []intake.AcceptedKey) error {
	<-time.After(s.takes)
	if err := s.failing("commit"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.keys[k.Key].Pending, s.keys[k.Key].At = false, k.At
	}
	return nil
}

func (s *store) Originals(_ context.Context, of []intake.Original) ([]*notification.Notification, error) {
	<-time.After(s.takes)
	if err := s.failing("view"); err != nil {
		return nil, err
	}
	found := make([]*notification.Notification, len(of))
	for i, o := range of {
		found[i] = s.known[o.ID]
	}
	return found, nil
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

// Life is longer over a webhook, whose retries take days.
func (rules) Life(category string, channel notification.Channel) time.Duration {
	life := time.Hour
	if category == "chat" {
		life = 48 * time.Hour
	}
	if channel == notification.ChannelWebhook {
		life += 200 * time.Hour
	}
	return life
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
