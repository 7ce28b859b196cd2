package redis

import (
	"context"
	"slices"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
)

// views reads notifications back: one, a page of them, the latest of a user, or all that Redis keeps.
type views struct{ agendas *agenda.Agendas }

// View returns a notification with what has become of it, or [notification.ErrNotFound].
func (s *views) View(ctx context.Context, id string) (*notification.View, error) {
	state, err := outlook.Of(s.agendas).Lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	return viewOf(state)
}

// viewOf makes the view of what the agendas know of a notification.
func viewOf(state *agenda.State) (*notification.View, error) {
	n, err := decode(state.ID, state.Backlog, state.AcceptedAt, state.Payload)
	if err != nil {
		return nil, err
	}
	n.Arrival = state.Arrival
	n.Dropped = state.Status == notification.StatusExpired && state.Reason == notification.ReasonOverflow
	return &notification.View{
		Notification: *n, Status: state.Status, Attempts: state.Attempts, Deferrals: state.Deferrals,
		Reason: state.Reason, Detail: state.Detail, Held: state.Held && state.Status == notification.StatusRetrying,
		DeliverAt: state.DeliverAt, Doomed: state.Doomed, Estimate: state.Estimate, Ahead: state.Ahead,
		Basis:    state.Basis,
		DigestID: state.DigestID,
		Timeline: timeline(state),
	}, nil
}

// timeline lists what happened to a notification, oldest first: the history of its agenda, and from its other fields
// the acceptance, the last admission and the end.
func timeline(s *agenda.State) []notification.Event {
	events := append([]notification.Event{{At: s.AcceptedAt, Kind: "accepted"}}, s.History...)
	if last, known := lastAttempt(s); known {
		events = append(events, last)
	}
	slices.SortStableFunc(events[1:], func(a, b notification.Event) int { return a.At.Compare(b.At) })
	if !s.EndedAt.IsZero() {
		events = append(events, notification.EndEvents(s.EndedAt, s.Status, s.Reason, s.Detail)...)
	}
	return events
}

// lastAttempt is the attempt that ended it or is under way, unless the history has it already.
func lastAttempt(s *agenda.State) (notification.Event, bool) {
	if s.Attempts == 0 { // it went with a digest, or not at all
		return notification.Event{}, false
	}
	last := &notification.Attempt{Number: s.Attempts, Basis: s.Basis}
	for _, e := range s.History {
		if e.Attempt != nil && e.Attempt.Number == last.Number {
			return notification.Event{}, false
		}
	}
	switch s.Status {
	case notification.StatusSending:
	case notification.StatusDelivered, notification.StatusFailed:
		last.Outcome, last.Reason, last.Took = string(s.Status), s.Reason, max(0, s.EndedAt.Sub(s.AdmittedAt))
	default:
		return notification.Event{}, false
	}
	return last.Event(s.AdmittedAt, replyOf(s)), true
}

// replyOf is the provider's reply that ended a notification.
func replyOf(s *agenda.State) string {
	if s.Reason == notification.ReasonMaxDefer {
		return ""
	}
	return s.Detail
}
