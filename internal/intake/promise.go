package intake

import (
	"context"
	"errors"
	"fmt"

	"github.com/pacer-notify/pacer/internal/notification"
)

// MaxPromises is of how many notifications of a batch it may be asked when they go.
const MaxPromises = 1000

// ErrNoPromise says that nobody can tell now when a notification would go. Nothing was accepted.
var ErrNoPromise = errors.New("no promise can be made now")

// Asks reports whether it has to be known when the notification would go.
func (r *Request) Asks() bool { return r.Promise || r.MaxWait != nil }

// refuseTooLate asks, for those pending requests that want to know, when they would go, and refuses those that would go
// too late. It returns the others.
//
// It is a look before acceptance: what others accept between the two is not seen. So a notification may be accepted
// that goes too late by as many slots as there are callers at the same moment.
func (in *Intake) refuseTooLate(ctx context.Context, batch []Request, results []Result, pending []int) ([]int, error) {
	var requests []notification.PromiseRequest
	var indexes []int
	for _, i := range pending {
		if batch[i].Asks() {
			requests = append(requests, notification.PromiseRequest{
				Notification: results[i].Notification, MaxWait: batch[i].MaxWait,
			})
			indexes = append(indexes, i)
		}
	}
	promises, err := in.ask(ctx, requests)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPromise, err)
	}
	refused := map[int]bool{}
	for q, i := range indexes {
		p := &promises[q]
		if p.TooLate != "" {
			results[i].Err = &notification.TooLateError{Limit: p.TooLate, DeliverAt: p.DeliverAt, Reason: p.Reason}
			refused[i] = true
		} else if batch[i].Promise {
			results[i].Promise = p
		}
	}
	remaining := pending[:0]
	for _, i := range pending {
		if !refused[i] {
			remaining = append(remaining, i)
		}
	}
	return remaining, nil
}

// ask asks when notifications go.
func (in *Intake) ask(ctx context.Context, requests []notification.PromiseRequest) ([]notification.Promise, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	return in.cfg.Promises(ctx, requests)
}

// promise tells of those that were accepted when they go, now that they stand in their places. They are accepted: when
// it can't be told, what was told before holds.
func (in *Intake) promise(ctx context.Context, batch []Request, results []Result, before []*notification.Promise) {
	var requests []notification.PromiseRequest
	var indexes []int
	for i := range results {
		if batch[i].Promise && results[i].Err == nil {
			results[i].Promise = before[i]
			requests = append(requests, notification.PromiseRequest{
				Notification: results[i].Notification, Accepted: true, Repeated: results[i].Known,
			})
			indexes = append(indexes, i)
		}
	}
	promises, err := in.ask(ctx, requests)
	if err != nil {
		in.cfg.Log.WarnContext(ctx, "could not look up the places of accepted notifications; repeating the promises made before they were accepted",
			"count", len(requests), "error", err)
		return
	}
	for q, i := range indexes {
		results[i].Promise = &promises[q]
	}
}

// promisesOf are the promises in results.
func promisesOf(results []Result) []*notification.Promise {
	promises := make([]*notification.Promise, len(results))
	for i := range results {
		promises[i] = results[i].Promise
	}
	return promises
}
