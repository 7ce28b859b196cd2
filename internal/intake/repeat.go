package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/notification"
)

// repeatOf is the result of a request whose key an earlier request of the batch has, whose result is r.
func repeatOf(repeat, first *Request, r Result) Result {
	if fingerprint(repeat) != fingerprint(first) {
		return Result{Err: ErrKeyReused}
	}
	r.Known = r.Err == nil
	return r
}

// fingerprint tells apart two requests with the same idempotency key.
func fingerprint(r *Request) string {
	n := r.Notification
	n.CreatedAt = time.Time{}
	body, err := json.Marshal(struct {
		notification.Notification
		Template *Template `json:",omitempty"`
	}{n, r.Template})
	if err != nil {
		body = []byte(err.Error()) // the data is not JSON, and such a notification has been refused already
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

// changing are the fields, besides those of templates, whose checks depend on the moment: expires_at passes, a category
// leaves the policy, a device is gone.
var changing = []string{"category", "channel", "to", "send_at", "expires_at"}

const (
	// lookups is of how many refused requests of a batch it is asked whether they were accepted before: a batch may be
	// refused whole, and must be told so in time.
	lookups = 1000
	// lookupsAtOnce is of how many of them a store is asked side by side.
	lookupsAtOnce = 16
)

// recognize makes repeats of requests that are refused now, but were accepted before: whoever repeats a request because
// its response was lost has to learn that. It clears the notifications of those that stay refused.
func (in *Intake) recognize(ctx context.Context, batch []Request, results []Result) error {
	asking, asked := errgroup.Group{}, 0
	asking.SetLimit(lookupsAtOnce)
	for i := range results {
		r := &results[i]
		if r.Err == nil {
			continue
		}
		n := r.Notification
		r.Notification = nil
		faults := notification.FieldErrors(r.Err)
		_, tooLate := errors.AsType[*notification.TooLateError](r.Err)
		if n == nil || len(faults) == 0 && !tooLate || slices.ContainsFunc(faults, isFixed) || asked == lookups ||
			batch[i].Notification.ID == "" && batch[i].IdempotencyKey == "" {
			continue
		}
		asked++
		asking.Go(func() error { return in.recognizeOne(ctx, n, r) })
	}
	return asking.Wait()
}

// isFixed reports whether a fault is one at every moment.
func isFixed(fault *notification.FieldError) bool {
	return !slices.Contains(changing, fault.Field) && !strings.HasPrefix(fault.Field, "template")
}

// recognizeOne looks for what was accepted with the key of a refused request, or else with its id.
func (in *Intake) recognizeOne(ctx context.Context, n *notification.Notification, r *Result) error {
	first, err := in.first(ctx, n)
	if err != nil || first == nil {
		return err
	}
	if before := repeated(n, first); before.Known {
		*r = before
	}
	return nil
}

// first returns what was accepted with the key of a notification, or else with its id; nil for none.
func (in *Intake) first(ctx context.Context, n *notification.Notification) (*notification.Notification, error) {
	if n.IdempotencyKey != "" {
		return in.cfg.Store.Holder(ctx, n.IdempotencyKey)
	}
	view, err := in.cfg.Store.View(ctx, n.ID)
	switch {
	case errors.Is(err, notification.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &view.Notification, nil
}

// repeated is the result of a notification whose idempotency key or id had been accepted before: a repeat of the first
// when it is the same request, or has the same content, and else a refusal. Without the first, another user has the id.
func repeated(n, first *notification.Notification) Result {
	switch {
	case first == nil:
		return Result{Err: &notification.ConflictError{ID: n.ID, Fields: []string{"user_id"}}}
	case n.IdempotencyKey != "" && first.IdempotencyKey == n.IdempotencyKey:
		if first.Fingerprint != n.Fingerprint {
			return Result{Err: ErrKeyReused}
		}
		return Result{Notification: first, Known: true}
	}
	if fields := n.Differences(first); len(fields) > 0 {
		return Result{Err: &notification.ConflictError{ID: n.ID, Fields: fields}}
	}
	return Result{Notification: first, Known: true}
}
