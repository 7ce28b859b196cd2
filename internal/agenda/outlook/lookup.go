package outlook

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Lookup returns what is known of a notification, or [notification.ErrNotFound].
func (a *Agendas) Lookup(ctx context.Context, id string) (*agenda.State, error) {
	partition, err := a.Locate(ctx, id)
	if err != nil {
		return nil, err
	}
	return a.LookupIn(ctx, partition, id)
}

// LookupIn is [Agendas.Lookup] for a notification whose partition is known.
func (a *Agendas) LookupIn(ctx context.Context, partition int, id string) (*agenda.State, error) {
	states, err := a.LookupAll(ctx, partition, []string{id})
	if err != nil {
		return nil, err
	}
	if len(states) == 0 {
		return nil, notification.ErrNotFound
	}
	return states[0], nil
}

// LookupAll is LookupIn for some at once, in their order; those that are not known are missing.
func (a *Agendas) LookupAll(ctx context.Context, partition int, ids []string) ([]*agenda.State, error) {
	states, err := a.Known(ctx, partition, ids)
	if err != nil {
		return nil, err
	}
	return states, a.Place(ctx, states...)
}

// Known is LookupAll without where they stand.
func (a *Agendas) Known(ctx context.Context, partition int, ids []string) ([]*agenda.State, error) {
	pipe := a.Client.Pipeline()
	read := make([]*redis.MapStringStringCmd, len(ids))
	for i, id := range ids {
		read[i] = pipe.HGetAll(ctx, a.Prefixes()[partition]+"n:"+id)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read notifications %s: %w", strings.Join(ids, ", "), err)
	}
	var states []*agenda.State
	for i, id := range ids {
		if fields := read[i].Val(); len(fields) > 0 {
			states = append(states, a.ParseState(id, partition, fields))
		}
	}
	return states, nil
}

// Place fills in where those of some notifications are that wait. It looks at each user once.
func (a *Agendas) Place(ctx context.Context, states ...*agenda.State) error {
	users := map[string][]*agenda.State{}
	for _, state := range states {
		if state.Status.Waiting() {
			users[state.UserID] = append(users[state.UserID], state)
		}
	}
	for userID, waiting := range users {
		if err := a.placeOf(ctx, userID, waiting); err != nil {
			return fmt.Errorf("find the places of notifications of a user: %w", keyspace.Fault(err))
		}
	}
	return nil
}

// placeOf is [Agendas.Place] for some of one user.
func (a *Agendas) placeOf(ctx context.Context, userID string, states []*agenda.State) error {
	subjects := make([]subject, len(states))
	for i, state := range states {
		subjects[i] = subject{id: state.ID, category: state.Category}
	}
	l, err := a.look(ctx, userID, subjects, nil)
	if err != nil {
		return err
	}
	fates := make([]*player.Fate, len(states))
	for i, state := range states {
		if n := l.notes[state.ID]; n != nil && l.heldBy(n) == "" {
			fates[i] = l.Ask(n)
			if err := l.reach(n); err != nil {
				return err
			}
		}
	}
	if err := l.Play(l.Asked); err != nil {
		return err
	}
	for i, state := range states {
		l.describe(state, &l.known[i], fates[i])
	}
	return nil
}

// describe fills in what became of a notification in a play.
func (l *look) describe(state *agenda.State, k *known, f *player.Fate) {
	settings := l.settingsOf(state.Category)
	state.Basis = settings.Basis
	if k.waits {
		state.Status = notification.StatusQueued
		if k.deferred {
			state.Status = notification.StatusDeferred
		}
	}
	if k.line != "" {
		state.Deferrals++
		state.Lines += k.line
		state.History = l.agendas.HistoryOf(state.UserID, state.Category, state.Lines)
	}
	switch {
	case f == nil:
		if n := l.notes[state.ID]; n != nil {
			state.Reason = l.heldBy(n)
		}
	case f.Reason != "":
		state.Doomed, state.Reason = true, f.Reason
		state.Detail = l.doom(l.notes[state.ID], f)
	default:
		state.Estimate = l.estimate(l.notes[state.ID], k, f)
		state.DeliverAt = max(f.At, l.now).Time()
		if k.waits {
			state.Ahead = f.Ahead
		}
		if k.waits || k.state == keyspace.States.Scheduled {
			state.Reason = player.ReasonOf(settings.Plan, f.By)
			state.Detail = settings.Explain(f.By, l.now.Time(), f.Until.Time())
		}
	}
}

// doom says why a notification will end instead of going.
func (l *look) doom(n *player.Note, f *player.Fate) string {
	settings := l.settingsOf(n.Category)
	switch f.Reason {
	case notification.ReasonQuietHours:
		return settings.ExplainDrop(l.now.Time(), f.At.Time(), f.Until.Time())
	case notification.ReasonExpired:
		return fmt.Sprintf("expires at %s, before it could go out at %s", agenda.ClockTime(n.Expires),
			agenda.ClockTime(f.At))
	case notification.ReasonMaxDefer:
		return agenda.SlotTooLate(f.At, f.AtLeast, settings.MaxDefer) + ": it expires"
	case notification.ReasonOverflow:
		return "the overflow ladder of its category will end it"
	}
	return ""
}
