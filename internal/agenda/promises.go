package agenda

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

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
	paused func(*notification.Notification) bool,
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
	for i, q := range requests {
		if promises[i].Place == 0 {
			continue
		}
		if a.cfg.Settings(q.UserID, q.Category).Removed {
			promises[i] = pausedPromise(q, notification.ReasonRemoved)
		} else if paused(q.Notification) {
			promises[i] = pausedPromise(q, notification.ReasonPaused)
		}
	}
	return promises, nil
}

// promisesOf makes the promises of one user's notifications.
func (a *Agendas) promisesOf(ctx context.Context, userID string, requests []notification.PromiseRequest, indexes []int,
	promises []notification.Promise,
) error {
	asks, first := make([]request, 0, len(indexes)), map[string]int{}
	for i, index := range indexes {
		q := requests[index]
		if _, twice := first[q.ID]; twice {
			continue
		}
		first[q.ID] = len(asks)
		asks = append(asks, a.ask(q, i-len(indexes)))
	}
	now, all, err := a.whenAll(ctx, userID, asks)
	if err != nil {
		return err
	}
	for _, index := range indexes {
		q := requests[index]
		promises[index] = a.promiseOf(q, &all[first[q.ID]], now)
	}
	return nil
}

// ask makes what the script and the timetable are asked. One that is not accepted stands behind all others of its
// priority, by as much as end says, unless it would replace one.
func (a *Agendas) ask(q notification.PromiseRequest, end int) request {
	ask := request{
		id: q.ID, category: q.Category, due: throttle.MicrosOf(q.SendAt), place: int64(q.Priority)*band + int64(end),
		channel: string(q.Channel), collapse: q.CollapseKey,
	}
	if !q.ExpiresAt.IsZero() {
		ask.expires = throttle.MicrosOf(q.ExpiresAt)
	}
	if q.Accepted {
		ask.place = int64(q.Priority-1)*band + q.Arrival
	} else {
		ask.refuses = a.limitsOf(q).tooLate
	}
	return ask
}

// limitsOn are what a notification may be too late for.
type limitsOn struct {
	maxWait   *time.Duration
	expiresAt time.Time
	maxDefer  time.Duration // 0 for none
}

func (a *Agendas) limitsOf(q notification.PromiseRequest) limitsOn {
	settings := a.cfg.Settings(q.UserID, q.Category)
	limits := limitsOn{maxWait: q.MaxWait, expiresAt: q.ExpiresAt, maxDefer: settings.MaxDefer}
	if q.Priority.AtLeast(settings.BypassFrom) {
		limits.maxDefer = 0
	}
	return limits
}

// tooLate names the limit for which a moment is too late: of one that may go since another moment.
func (l limitsOn) tooLate(since, at throttle.Micros) string {
	wait := at.Sub(since)
	switch {
	case l.maxWait != nil && wait > *l.maxWait:
		return "max_wait " + timespan.Text(*l.maxWait)
	case !l.expiresAt.IsZero() && at >= throttle.MicrosOf(l.expiresAt):
		return "expires_at " + l.expiresAt.UTC().Format(time.RFC3339Nano)
	case l.maxDefer > 0 && wait > l.maxDefer:
		return "max_defer " + timespan.Text(l.maxDefer)
	}
	return ""
}

// pausedPromise is that of a notification that goes when somebody resumes it, or puts its category back.
func pausedPromise(q notification.PromiseRequest, reason string) notification.Promise {
	p := notification.Promise{Decision: notification.DecisionDeferred, Reason: reason}
	if q.MaxWait != nil {
		p.TooLate = "max_wait " + timespan.Text(*q.MaxWait)
	}
	return p
}

// promiseOf puts what was found of a notification into a promise.
func (a *Agendas) promiseOf(q notification.PromiseRequest, f *found, now throttle.Micros) notification.Promise {
	settings := a.cfg.Settings(q.UserID, q.Category)
	switch {
	case f.gone() && f.admitted > 0 && (f.state == "s" || f.state == "D" || f.state == "F"):
		return notification.Promise{Decision: notification.DecisionNow, DeliverAt: f.admitted.Time()}
	case f.gone():
		return notification.Promise{Reason: f.reason}
	case f.state == "" && q.Repeated: // it ended longer ago than it is known
		return notification.Promise{}
	}
	p := notification.Promise{
		Decision: notification.DecisionNow, DeliverAt: max(f.at, now).Time(), Place: f.ahead + 1, TooLate: f.refused,
		Reason: player.ReasonOf(settings.Plan, f.by),
	}
	switch {
	case f.dropped && !q.Accepted:
		p.TooLate, p.DeliverAt, p.Reason = "quiet hours that end it", f.until.Time(), notification.ReasonQuietHours
	case f.dropped:
		return notification.Promise{Reason: notification.ReasonQuietHours}
	case f.due > now:
		p.Decision = notification.DecisionScheduled
	case f.at > now:
		p.Decision = notification.DecisionDeferred
	}
	return p
}
