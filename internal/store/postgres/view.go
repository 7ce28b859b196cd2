package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// viewColumns are what scanRow reads.
const viewColumns = `n.id, coalesce(n.idempotency_key, ''), coalesce(n.fingerprint, ''), n.status, n.reason, n.detail,
	n.attempts, n.deferrals, n.history, n.changes, n.not_before, n.admitted_at, n.ended_at,
	coalesce(n.claimed_until < clock_timestamp(), false), n.policy_version, n.zone, n.digest_id,` + columns.ContentColumns

const (
	// viewSQL returns one notification.
	viewSQL = "SELECT " + viewColumns + " FROM pacer.notifications n WHERE id = $1"
	// attemptsSQL returns the attempts at a notification, oldest first.
	attemptsSQL = `
SELECT attempt, admitted_at, outcome, reason, reply, took_us, policy_version, zone FROM pacer.attempts
WHERE notification_id = $1 ORDER BY generation`
	// fillersSQL returns the ids of a user's latest deliveries between two moments, in the category $4 or, when that is
	// "", in all of them.
	fillersSQL = `
SELECT notification_id FROM pacer.attempts
WHERE (user_id, admitted_at) > ($1, $2) AND (user_id, admitted_at) <= ($1, $3) AND ($4 = '' OR category = $4)
	AND counted AND notification_id <> $5
ORDER BY user_id DESC, admitted_at DESC LIMIT $6`
)

// lookups is the part of the store that looks up notifications, and lists them.
type lookups struct {
	stores *seam.Stores
	// rowsLooked is how many rows a statement looks at, see Config.RowsLooked.
	rowsLooked int
	// stalled reports whether the Redis of a partition makes no progress: it is not waited for.
	stalled func(partition int) bool
	asking  sync.WaitGroup // of Redis, also when nobody waits any more
}

// row is a notification as the database has it.
type row struct {
	notification.View
	history    string
	changes    string // lines as in the history
	notBefore  time.Time
	admittedAt int64
	endedAt    time.Time
	// abandoned is true when the lease of the worker that is sending it has ended.
	abandoned bool
}

// inAgendas reports whether the agendas may know more of the notification than the database.
func (v *row) inAgendas() bool {
	return !v.Status.Ended() && (v.Status != notification.StatusSending || v.abandoned)
}

// scanRow reads a row of viewColumns.
func scanRow(r pgx.CollectableRow) (row, error) {
	var v row
	var status string
	var notBefore *int64
	var endedAt *time.Time
	var c columns.Content
	err := r.Scan(c.Into([]any{
		&v.ID, &v.IdempotencyKey, &v.Fingerprint, &status, &v.Reason, &v.Detail, &v.Attempts, &v.Deferrals, &v.history,
		&v.changes, &notBefore, &v.admittedAt, &endedAt, &v.abandoned, &v.Basis.PolicyVersion, &v.Basis.Zone, &v.DigestID,
	}, &v.Notification)...)
	c.Fill(&v.Notification)
	v.Status = notification.Status(status)
	v.Dropped = v.Status == notification.StatusExpired && v.Reason == notification.ReasonOverflow
	v.notBefore, v.endedAt = columns.LimiterMoment(notBefore), columns.Moment(endedAt)
	if status == "waiting" {
		v.Status = notification.StatusQueued
		if v.SendAt.After(time.Now()) {
			v.Status, v.DeliverAt = notification.StatusScheduled, v.SendAt
		}
	}
	if v.Status == notification.StatusRetrying {
		v.DeliverAt = v.notBefore
	}
	return v, err
}

// View returns a notification with what has become of it, or [notification.ErrNotFound].
func (l *lookups) View(ctx context.Context, id string) (*notification.View, error) {
	rows, err := l.stores.Pool.Query(ctx, viewSQL, id)
	if err != nil {
		return nil, limited.Describe("look up notification "+id, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, scanRow)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, notification.ErrNotFound
	case err != nil:
		return nil, limited.Describe("look up notification "+id, err)
	}
	l.place(ctx, &v)
	if v.Timeline, err = l.timeline(ctx, &v); err != nil {
		return nil, err
	}
	return &v.View, nil
}

// place fills in what the agendas know about notifications that have not ended: the place in the backlog, the slot, and
// an end that the database has not learned yet. Each partition is asked once. While Redis is away or stalled, a view is
// partial: it has what the database knows.
func (l *lookups) place(ctx context.Context, rows ...*row) {
	partitions := map[int][]*row{}
	for _, v := range rows {
		if v.inAgendas() {
			partition := l.stores.Agendas.PartitionOf(v.UserID)
			partitions[partition] = append(partitions[partition], v)
		}
	}
	var placing errgroup.Group
	placing.SetLimit(placesAtOnce)
	for partition, some := range partitions {
		placing.Go(func() error {
			ids := make([]string, len(some))
			for i, v := range some {
				ids[i] = v.ID
			}
			states, told := l.lookup(ctx, partition, ids)
			for _, v := range some {
				v.Partial = !told
				v.fill(states[v.ID])
			}
			return nil
		})
	}
	_ = placing.Wait() // none of them fails
}

// fill takes in what the agendas know of a notification; nil is nothing.
func (v *row) fill(state *agenda.State) {
	if state == nil {
		return
	}
	v.Status, v.DeliverAt, v.Ahead = state.Status, state.DeliverAt, state.Ahead
	v.Doomed, v.Estimate = state.Doomed, state.Estimate
	if v.Status.Waiting() {
		v.Basis = state.Basis
	}
	if state.Reason != "" && state.Reason != v.Reason || state.Doomed {
		v.Reason, v.Detail = state.Reason, state.Detail
	}
	v.Held = state.Held && v.Status == notification.StatusRetrying
	v.Deferrals = max(v.Deferrals, state.Deferrals)
	v.history = historyWith(v.history, state.Lines)
	v.endedAt = state.EndedAt
}

// historyWith is the history of a row with the lines that Redis tells, as a claim would join them: see
// earlierHistorySQL.
func historyWith(kept, told string) string {
	first, _, _ := strings.Cut(told, "\n")
	if first == "" {
		return kept
	}
	earlier, _, _ := strings.Cut(kept, first)
	return earlier + told
}

// lookup asks Redis for notifications of a partition, by id, for as long as a response may wait. Those that it does not
// know are missing; told is false when Redis does not say.
func (l *lookups) lookup(ctx context.Context, partition int, ids []string) (known map[string]*agenda.State, told bool) {
	if l.stalled(partition) {
		return nil, false
	}
	found := make(chan []*agenda.State, 1)
	l.asking.Go(func() {
		defer close(found)
		if states, err := outlook.Of(l.stores.Agendas.Agendas).LookupAll(ctx, partition, ids); err == nil {
			found <- states
		}
	})
	patience := time.NewTimer(l.stores.PlacePatience)
	defer patience.Stop()
	select {
	case states, told := <-found:
		known = map[string]*agenda.State{}
		for _, state := range states {
			known[state.ID] = state
		}
		return known, told
	case <-patience.C:
		return nil, false
	}
}

// timeline lists what happened to a notification, oldest first.
func (l *lookups) timeline(ctx context.Context, v *row) ([]notification.Event, error) {
	events := []notification.Event{{At: v.CreatedAt, Kind: "accepted"}}
	deferred, err := l.deferredEvents(ctx, v)
	if err != nil {
		return nil, err
	}
	rows, err := l.stores.Pool.Query(ctx, attemptsSQL, v.ID)
	if err != nil {
		return nil, limited.Describe("look up the attempts at notification "+v.ID, err)
	}
	var a notification.Attempt
	var admittedAt, took int64
	var reply string
	first := time.Time{}
	fields := []any{&a.Number, &admittedAt, &a.Outcome, &a.Reason, &reply, &took, &a.Basis.PolicyVersion, &a.Basis.Zone}
	if _, err := pgx.ForEachRow(rows, fields, func() error {
		one := a
		one.Took = time.Duration(took) * time.Microsecond
		events = append(events, one.Event(time.UnixMicro(admittedAt), reply))
		if first.IsZero() {
			first = time.UnixMicro(admittedAt)
		}
		return nil
	}); err != nil {
		return nil, limited.Describe("look up the attempts at notification "+v.ID, err)
	}
	for _, e := range deferred {
		// The attempts say more of a retry than the history does. Of imported retries there is the history alone.
		failed := e.Kind == notification.KindAttempt || e.Kind == string(notification.StatusRetrying)
		if first.IsZero() || e.At.Before(first) || !failed {
			events = append(events, e)
		}
	}
	if v.Status == notification.StatusSending {
		under := &notification.Attempt{Number: v.Attempts, Basis: v.Basis}
		events = append(events, under.Event(time.UnixMicro(v.admittedAt), ""))
	}
	slices.SortStableFunc(events[1:], func(a, b notification.Event) int { return a.At.Compare(b.At) })
	if !v.endedAt.IsZero() {
		events = append(events, notification.EndEvents(v.endedAt, v.Status, v.Reason, v.Detail)...)
	}
	return events, nil
}

// fillersShown is how many of the earlier deliveries that filled a window are named.
const fillersShown = 20

// deferredEvents lists the deferrals: until when, by which rule, and which earlier deliveries filled its window.
func (l *lookups) deferredEvents(ctx context.Context, v *row) ([]notification.Event, error) {
	events := l.stores.Agendas.HistoryOf(v.UserID, v.Category, v.history+v.changes)
	rules := l.stores.Agendas.SettingsOf(v.UserID, v.Category).Plan.Rules
	for _, d := range agenda.ParseDeferrals(v.history) {
		if d.By.Closed || d.By.Rule < 0 || d.By.Rule >= len(rules) {
			continue
		}
		fillers, err := l.fillers(ctx, v, d, rules[d.By.Rule])
		if err != nil {
			return nil, err
		}
		for i := range events {
			if len(fillers) > 0 && events[i].Kind == string(notification.StatusDeferred) && events[i].At.Equal(d.At) {
				events[i].Detail += "; filled by " + strings.Join(fillers, ", ")
			}
		}
	}
	return events, nil
}

// fillers names the deliveries that filled a rule's window when it deferred.
func (l *lookups) fillers(ctx context.Context, v *row, d agenda.Deferral, rule throttle.Rule) ([]string, error) {
	category := v.Category
	// A named cap does not say which categories it counts, nor a rule of the calendar since when.
	if rule.Kind == throttle.KindNamed || rule.Period > 0 {
		return nil, nil
	}
	if rule.Kind == throttle.KindCap {
		category = ""
	}
	rows, err := l.stores.Pool.Query(ctx, fillersSQL, v.UserID, d.At.Add(-rule.Per).UnixMicro(), d.At.UnixMicro(),
		category, v.ID, fillersShown)
	if err != nil {
		return nil, limited.Describe("look up what filled the windows of notification "+v.ID, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, limited.Describe("look up what filled the windows of notification "+v.ID, err)
	}
	return ids, nil
}

// newerSQL reports whether a newer notification with the collapse key of one was accepted.
const newerSQL = "SELECT " + columns.SupersededSQL + " FROM pacer.notifications n WHERE n.id = $1"

// Superseded reports whether a newer notification with the user, category and collapse key of n was accepted, whatever
// became of it, unless it has been purged.
func (l *lookups) Superseded(ctx context.Context, n *notification.Notification) (bool, error) {
	var newer bool
	err := l.stores.Pool.QueryRow(ctx, newerSQL, n.ID).Scan(&newer)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // n itself may have been purged meanwhile
		return false, limited.Describe("look for a newer notification with the same collapse key", err)
	}
	return newer, nil
}
