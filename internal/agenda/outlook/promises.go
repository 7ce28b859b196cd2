package outlook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// readers is of how many users it is asked at once when their notifications go.
const readers = 16

// Promises reports when notifications go, one promise for each, in order. Those that are not accepted stand behind all
// that waits now, in the order of the requests, or in the places of those that they would replace. One that was
// accepted, but is not in its backlog yet, stands where it will. Of one that is paused nobody can tell. It writes
// nothing.
func (a *Agendas) Promises(ctx context.Context, requests []notification.PromiseRequest,
) ([]notification.Promise, error) {
	promises := make([]notification.Promise, len(requests))
	users := map[string][]int{}
	for i, q := range requests {
		users[q.UserID] = append(users[q.UserID], i)
	}
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(readers)
	for userID, indexes := range users {
		asking.Go(func() error { return a.promisesOf(ctx, userID, requests, indexes, promises) })
	}
	if err := asking.Wait(); err != nil {
		return nil, fmt.Errorf("tell when notifications go: %w", keyspace.Fault(err))
	}
	return promises, nil
}

// promisesOf makes the promises of one user's notifications.
func (a *Agendas) promisesOf(ctx context.Context, userID string, requests []notification.PromiseRequest, indexes []int,
	promises []notification.Promise,
) error {
	var subjects []subject
	first := map[string]int{} // of each id
	for _, index := range indexes {
		q := requests[index]
		if _, twice := first[q.ID]; !twice {
			first[q.ID] = len(subjects)
			subjects = append(subjects, subject{q.ID, q.Category, q.CollapseKey})
		}
	}
	l, err := a.look(ctx, userID, subjects, nil)
	if err != nil {
		return err
	}
	questions := make([]*question, len(subjects))
	for _, index := range indexes {
		if i := first[requests[index].ID]; questions[i] == nil {
			if questions[i], err = l.ask(requests[index], &l.known[i]); err != nil {
				return err
			}
		}
	}
	if err := l.Play(l.Asked); err != nil {
		return err
	}
	for _, index := range indexes {
		q := requests[index]
		promises[index] = l.promiseOf(q, questions[first[q.ID]])
	}
	return nil
}

// question is what a notification asks of a play: nothing, when it has ended.
type question struct {
	*known

	note *player.Note
	fate *player.Fate
	// replacedBy is what else was asked about, and has its collapse key and its place.
	replacedBy *question
}

// ask asks when a notification goes. One that is not known is accepted in the play, behind all others of its priority,
// or in the place of what it replaces.
func (l *look) ask(q notification.PromiseRequest, k *known) (*question, error) {
	one := &question{known: k, note: l.notes[q.ID]}
	switch {
	case k.gone(), k.state == "" && q.Repeated:
		return one, nil
	case k.state != "" && l.heldBy(one.note) != "":
		return one, nil
	case k.state != "":
		one.fate = l.Ask(one.note)
		return one, l.reach(one.note)
	}
	if one.note = l.newcomer(q); l.heldBy(one.note) != "" {
		return one, nil
	}
	one.fate = l.Ask(one.note)
	l.Hear(func(n *player.Note) {
		if n != one.note { // it takes the place of n, which has it when the newcomer goes too late
			one.note.MaxWait = nil
		}
		for _, earlier := range l.asked {
			if earlier.note == n {
				earlier.replacedBy = one
			}
		}
	})
	l.Agenda().Accept(l.now, one.note)
	l.Hear(func(*player.Note) {})
	if one.note.Expires > 0 {
		l.Expires(one.note)
	}
	if due := one.note.Due; due > l.now || !l.Agenda().Holds(one.note) {
		l.StartBy(due)
	}
	l.asked = append(l.asked, one)
	return one, l.reach(one.note)
}

// behindAll is an arrival after all others.
const behindAll = 1 << 50

// newcomer is a notification that is accepted in the play.
func (l *look) newcomer(q notification.PromiseRequest) *player.Note {
	n := &player.Note{
		ID: q.ID, Category: q.Category, Channel: string(q.Channel), CollapseKey: q.CollapseKey, Priority: q.Priority,
		Accepted: l.now, Arrival: q.Arrival,
	}
	if l.settingsOf(q.Category).Digest != nil {
		n.Group = agenda.GroupOf(string(q.Channel), q.To, q.GroupKey)
	}
	if !q.Accepted {
		n.Probe, n.MaxWait, n.Arrival = true, q.MaxWait, behindAll+int64(len(l.asked))
	}
	if !q.SendAt.IsZero() {
		n.NotBefore = throttle.MicrosOf(q.SendAt)
	}
	if !q.ExpiresAt.IsZero() {
		n.Expires = throttle.MicrosOf(q.ExpiresAt)
	}
	return n
}

// reach reads a backlog up to a notification in it.
func (l *look) reach(n *player.Note) error {
	for l.Agenda().Beyond(n) {
		if more, err := l.ReadBacklog(n.Category); err != nil || !more {
			return err
		}
	}
	return nil
}

// estimate reports whether all that is known of a notification is when it goes at the earliest, and notes that. It is
// when what goes before it was not read.
func (l *look) estimate(n *player.Note, k *known, f *player.Fate) bool {
	if f.Reason == "" && !f.Goes {
		f.At, f.Ahead = max(n.Due, l.Now()), max(k.before, l.Gone(n.Category))
		f.By, f.Until = l.Agenda().BlockedBy(n.Category), f.At
	}
	return f.Reason == "" && (l.partly || !f.Goes)
}

// tooLate names the limit for which a notification would go too late, by what becomes of it; "" when it goes in time.
func (l *look) tooLate(q notification.PromiseRequest, f *player.Fate, since throttle.Micros, estimate bool,
) string {
	switch {
	case q.MaxWait != nil && f.Reason == "" && (estimate || f.At.Sub(since) > *q.MaxWait), f.Reason == notification.ReasonTooLate:
		return "max_wait " + timespan.Text(*q.MaxWait)
	case f.Reason == notification.ReasonMaxDefer:
		return "max_defer " + timespan.Text(l.settingsOf(q.Category).MaxDefer)
	case f.Reason == notification.ReasonExpired:
		return "expires_at " + q.ExpiresAt.UTC().Format(time.RFC3339Nano)
	case f.Reason == notification.ReasonQuietHours:
		return "quiet hours that end it"
	}
	return ""
}

// underWay are the states of what its latest admission let go.
var underWay = []string{keyspace.States.Sending, keyspace.States.Delivered, keyspace.States.Failed}

// pausedPromise is that of a notification that goes when somebody resumes it, or puts its category back.
func pausedPromise(q notification.PromiseRequest, reason string) notification.Promise {
	p := notification.Promise{Decision: notification.DecisionDeferred, Reason: reason}
	if q.MaxWait != nil {
		p.TooLate = "max_wait " + timespan.Text(*q.MaxWait)
	}
	return p
}

// promiseOf puts what was found out about a notification into a promise.
func (l *look) promiseOf(q notification.PromiseRequest, one *question) notification.Promise {
	switch {
	case one.gone() && one.admitted > 0 && slices.Contains(underWay, one.state):
		return notification.Promise{Decision: notification.DecisionNow, DeliverAt: one.admitted.Time()}
	case one.gone():
		return notification.Promise{Reason: one.reason}
	case one.note != nil && one.fate == nil:
		return pausedPromise(q, l.heldBy(one.note))
	case one.fate == nil: // it ended longer ago than it is known
		return notification.Promise{}
	}
	n, f := one.note, *one.fate
	for by := one.replacedBy; by != nil; by = by.replacedBy {
		f = *by.fate
	}
	estimate := l.estimate(n, one.known, &f)
	p := notification.Promise{
		Decision: notification.DecisionNow, DeliverAt: max(f.At, l.now).Time(), Place: f.Ahead + 1,
		Reason: player.ReasonOf(l.settingsOf(q.Category).Plan, f.By), Estimate: estimate,
	}
	switch {
	case n.NotBefore > l.now, n.Due > l.now:
		p.Decision = notification.DecisionScheduled
	case f.At > l.now && f.Digest:
		p.Decision = notification.DecisionDigest
	case f.At > l.now:
		p.Decision = notification.DecisionDeferred
	}
	switch {
	case q.Accepted && f.Reason != "", f.Reason == notification.ReasonOverflow:
		return notification.Promise{Reason: f.Reason}
	case q.Accepted:
	case f.Reason == notification.ReasonQuietHours:
		p.DeliverAt, p.Reason = f.Until.Time(), f.Reason
		fallthrough
	default:
		p.TooLate = l.tooLate(q, &f, max(l.now, n.NotBefore), estimate)
	}
	return p
}
