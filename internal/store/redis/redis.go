// Package redis is the store of the set-ups without Postgres. It keeps notifications, and everything that happens to
// them, in the agendas' own hashes on Redis. Every step is one script. The store is as durable as Redis is configured
// to be.
package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
)

// Store keeps notifications on Redis. It is made of parts that do not know each other, and itself does what workers and
// operators ask for.
type Store struct {
	accepting
	views
	preferences
	devices
	evidence

	// OptedOut reports whether a user does not want notifications of a category over a channel; it is asked of every
	// grant. Defaults to never.
	OptedOut func(userID, category string, channel notification.Channel) bool
	// Life is how long a notification takes, from the moment at which it may go, that waits for max_defer once and is
	// retried to the end. Defaults to a day.
	Life func(category string, channel notification.Channel) time.Duration

	agendas *agenda.Agendas
}

// New makes a Store over the agendas of a deployment.
func New(client redis.UniversalClient, agendas *agenda.Agendas) *Store {
	s := &Store{
		OptedOut: func(string, string, notification.Channel) bool { return false },
		Life:     func(string, notification.Channel) time.Duration { return 24 * time.Hour },
		agendas:  agendas, views: views{agendas}, preferences: preferences{client, agendas},
		devices: devices{client, agendas}, evidence: evidence{agendas},
	}
	life := func(n *notification.Notification) time.Duration { return s.Life(n.Category, n.Channel) }
	s.accepting = accepting{
		agendas: agendas, claims: claims{client, agendas, life}, view: s.View, unwanted: s.unwanted,
	}
	return s
}

// unwanted reports whether the user of a notification has opted out of it.
func (s *Store) unwanted(n *notification.Notification) bool {
	return s.OptedOut(n.UserID, n.Category, n.Channel)
}

// content is the part of a notification that only its delivery needs. The agenda keeps it as the entry's payload.
type content struct {
	Channel     notification.Channel  `json:"c"`
	To          string                `json:"t,omitempty"`
	Title       string                `json:"h,omitempty"`
	Body        string                `json:"b,omitempty"`
	Data        json.RawMessage       `json:"d,omitempty"`
	Priority    notification.Priority `json:"p"`
	SendAt      time.Time             `json:"s,omitzero"`
	ExpiresAt   time.Time             `json:"e,omitzero"`
	CollapseKey string                `json:"k,omitempty"`
	GroupKey    string                `json:"g,omitempty"`
	Override    json.RawMessage       `json:"o,omitempty"`
	TraceParent string                `json:"r,omitempty"`
	Key         *requestKey           `json:"i,omitempty"`
}

// requestKey is the idempotency key of the request that made a notification; few have one.
type requestKey struct {
	Name        string `json:"k"`
	Fingerprint string `json:"f"`
}

// encode makes the payload of a notification.
func encode(n *notification.Notification) (string, error) {
	var key *requestKey
	if n.IdempotencyKey != "" {
		key = &requestKey{n.IdempotencyKey, n.Fingerprint}
	}
	body, err := json.Marshal(content{
		Channel: n.Channel, To: n.To, Title: n.Title, Body: n.Body, Data: n.Data, Priority: n.Priority,
		SendAt: n.SendAt, ExpiresAt: n.ExpiresAt, CollapseKey: n.CollapseKey, GroupKey: n.GroupKey,
		Override: n.Override, TraceParent: n.TraceParent, Key: key,
	})
	if err != nil {
		return "", fmt.Errorf("encode notification %s: %w", n.ID, err)
	}
	return string(body), nil
}

// decode makes a notification of its payload and of what its agenda knows besides.
func decode(id string, b dispatch.Backlog, acceptedAt time.Time, payload string) (*notification.Notification, error) {
	var c content
	if err := json.Unmarshal([]byte(payload), &c); err != nil {
		return nil, fmt.Errorf("decode notification %s: %w", id, err)
	}
	n := &notification.Notification{
		ID: id, UserID: b.UserID, Category: b.Category, Channel: c.Channel, To: c.To, Title: c.Title, Body: c.Body,
		Data: c.Data, Priority: c.Priority, SendAt: c.SendAt, ExpiresAt: c.ExpiresAt, CollapseKey: c.CollapseKey,
		GroupKey: c.GroupKey, Override: c.Override, TraceParent: c.TraceParent, CreatedAt: acceptedAt,
	}
	if c.Key != nil {
		n.IdempotencyKey, n.Fingerprint = c.Key.Name, c.Key.Fingerprint
	}
	return n, nil
}

// Take implements [dispatch.Store].
func (s *Store) Take(ctx context.Context, request dispatch.TakeRequest) (dispatch.TakeResult, error) {
	return s.agendas.Take(ctx, request)
}

// Claim implements [dispatch.Store]: a grant carries its whole notification, so nothing is left to claim. It ends what
// its user has opted out of.
func (s *Store) Claim(ctx context.Context, g *dispatch.Grant) (bool, error) {
	n, err := decode(g.Notification.ID, g.Backlog, g.ArrivedAt, g.Payload)
	if err != nil {
		unreadable := dispatch.Outcome{Disposition: dispatch.Failed, Reason: "unreadable", Refund: true}
		_, failed := s.agendas.Settle(ctx, g, unreadable)
		return false, errors.Join(err, failed)
	}
	g.Notification = n
	if g.Digest, err = s.digest(ctx, g); err != nil {
		back := dispatch.Outcome{Disposition: dispatch.Returned, Refund: true}
		_, failed := s.agendas.Settle(ctx, g, back)
		return false, errors.Join(err, failed)
	}
	if s.unwanted(n) {
		cancelled := dispatch.Outcome{
			Disposition: dispatch.Cancelled, Reason: notification.ReasonOptedOut, Refund: true,
		}
		_, err := s.agendas.Settle(ctx, g, cancelled)
		return false, err
	}
	return true, nil
}

// digest reads what goes as one with the notification of a grant; nil when it goes alone.
func (s *Store) digest(ctx context.Context, g *dispatch.Grant) ([]*notification.Notification, error) {
	if len(g.Items) == 0 {
		return nil, nil
	}
	states, err := outlook.Of(s.agendas).Known(ctx, g.Partition, slices.Concat(g.Items, []string{g.Notification.ID}))
	if err != nil {
		return nil, err
	}
	all := make([]*notification.Notification, len(states))
	for i, state := range states {
		if all[i], err = decode(state.ID, state.Backlog, state.AcceptedAt, state.Payload); err != nil {
			return nil, err
		}
		all[i].Arrival = state.Arrival
	}
	return all, nil
}

// Settle implements [dispatch.Store].
func (s *Store) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	return s.agendas.Settle(ctx, g, o)
}

// Extend implements [dispatch.Store].
func (s *Store) Extend(ctx context.Context, g *dispatch.Grant) error { return s.agendas.Extend(ctx, g) }

// Cancel ends a notification that still waits. Else it returns [notification.ErrNotFound] or
// [notification.ErrNotWaiting].
func (s *Store) Cancel(ctx context.Context, id string) error { return s.agendas.Cancel(ctx, id) }

// CancelBecause is Cancel with a reason.
func (s *Store) CancelBecause(ctx context.Context, id, reason string) error {
	partition, err := s.agendas.Locate(ctx, id)
	if err != nil {
		return err
	}
	return s.agendas.CancelIn(ctx, partition, id, reason)
}

// Superseded reports whether a newer notification with the user, category and collapse key of n was accepted.
func (s *Store) Superseded(ctx context.Context, n *notification.Notification) (bool, error) {
	return s.agendas.Superseded(ctx, n)
}

// History returns what happened in each category and hour, from the hour of since to that of until.
func (s *Store) History(ctx context.Context, since, until time.Time) ([]stats.Hour, error) {
	return outlook.Of(s.agendas).History(ctx, since, until)
}

// Stats returns the counts of the deployment.
func (s *Store) Stats(ctx context.Context) (stats.Counts, error) {
	return outlook.Of(s.agendas).Stats(ctx)
}
