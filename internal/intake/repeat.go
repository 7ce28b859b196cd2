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

// reserve reserves the idempotency keys of the pending requests, and returns those that are still to be stored.
func (in *Intake) reserve(ctx context.Context, batch []Request, results []Result, pending []int) ([]int, error) {
	decided := make([]bool, len(batch))
	err := eachKey(ctx, batch, pending, func(ctx context.Context, i int) (err error) {
		decided[i], err = in.reserveOne(ctx, &batch[i], &results[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pending, func(i int) bool { return decided[i] }), nil
}

// reserveOne reserves the idempotency key of one request. It tells whether that decided its result.
func (in *Intake) reserveOne(ctx context.Context, request *Request, result *Result) (decided bool, err error) {
	n := result.Notification
	r, err := in.cfg.Store.Reserve(ctx, request.IdempotencyKey, fingerprint(request), n.ID, in.longest(n)+keyLife)
	if err != nil {
		return false, err
	}
	switch r.Claim {
	case ClaimNew:
		n.ID = r.ID
		return false, nil
	case ClaimDone:
		*result, err = in.known(ctx, r.ID, n, request.Template != nil)
	case ClaimBusy:
		*result = Result{Err: ErrInProgress}
	case ClaimOther:
		*result = Result{Err: ErrKeyReused}
	}
	return true, err
}

// commit commits the idempotency keys of requests that have been stored, also of those that are a conflict, so that a
// repeat gets the same response.
func (in *Intake) commit(ctx context.Context, batch []Request, stored []int) error {
	return eachKey(ctx, batch, stored, func(ctx context.Context, i int) error {
		return in.cfg.Store.Commit(ctx, batch[i].IdempotencyKey)
	})
}

// eachKey asks the store about those of some requests that have an idempotency key, side by side. It asks for no more
// after the first error, or when the context has ended: a store that is away may take its time over each.
func eachKey(ctx context.Context, batch []Request, of []int, ask func(ctx context.Context, i int) error) error {
	asking, on := errgroup.WithContext(ctx)
	asking.SetLimit(keysAtOnce)
	for _, i := range of {
		if on.Err() != nil {
			break
		}
		if batch[i].IdempotencyKey != "" {
			asking.Go(func() error { return ask(on, i) })
		}
	}
	if err := asking.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// longest is how long a notification lives from now on that is deferred once and retried to the end, or until it
// expires.
func (in *Intake) longest(n *notification.Notification) time.Duration {
	now := in.cfg.Clock()
	life := max(0, n.SendAt.Sub(now)) + in.cfg.Rules.Life(n.Category, n.Channel)
	if n.ExpiresAt.IsZero() {
		return life
	}
	return min(life, max(0, n.ExpiresAt.Sub(now)))
}

// changing are the fields, besides those of templates, whose checks depend on the moment: expires_at passes, a category
// leaves the policy, a device is gone.
var changing = []string{"category", "channel", "to", "send_at", "expires_at"}

const (
	// lookups is of how many refused requests of a batch it is asked whether they were accepted before: a batch may be
	// refused whole, and must be told so in time.
	lookups = 1000
	// keysAtOnce is for how many requests of a batch a store is asked side by side.
	keysAtOnce = 16
)

// recognize makes repeats of requests that are refused now, but were accepted before: whoever repeats a request because
// its response was lost has to learn that. It clears the notifications of those that stay refused.
func (in *Intake) recognize(ctx context.Context, batch []Request, results []Result) error {
	asking, asked := errgroup.Group{}, 0
	asking.SetLimit(keysAtOnce)
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
		asking.Go(func() error { return in.recognizeOne(ctx, &batch[i], n, r) })
	}
	return asking.Wait()
}

// isFixed tells whether a fault is one at every moment.
func isFixed(fault *notification.FieldError) bool {
	return !slices.Contains(changing, fault.Field) && !strings.HasPrefix(fault.Field, "template")
}

// recognizeOne looks for what was accepted with the key of a refused request, or else with its id.
func (in *Intake) recognizeOne(ctx context.Context, request *Request, n *notification.Notification, r *Result) error {
	if key := request.IdempotencyKey; key != "" {
		held, err := in.cfg.Store.Reserved(ctx, key, fingerprint(request))
		if err == nil && held.Claim == ClaimDone {
			*r, err = in.known(ctx, held.ID, n, request.Template != nil)
		}
		return err
	}
	view, err := in.cfg.Store.View(ctx, n.ID)
	switch {
	case errors.Is(err, notification.ErrNotFound):
		return nil
	case err == nil && len(n.Differences(&view.Notification)) == 0:
		*r = Result{Notification: &view.Notification, Known: true}
	}
	return err
}

// known returns the notification that was accepted before under the idempotency key. Once the store has forgotten it,
// it returns n, which the request would make. When the id that the request names was taken already, it is still a
// conflict; templates may make another content by now, so what they made is not compared.
func (in *Intake) known(ctx context.Context, id string, n *notification.Notification, made bool) (Result, error) {
	view, err := in.cfg.Store.View(ctx, id)
	if errors.Is(err, notification.ErrNotFound) {
		n.ID = id
		return Result{Notification: n, Known: true}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if id == n.ID && !made {
		return repeated(n, Accepted{At: view.CreatedAt, First: &view.Notification}), nil
	}
	return Result{Notification: &view.Notification, Known: true}, nil
}

// repeated is the result of a notification whose id had been accepted before: a repeat of the first when it has the
// same content, and else a conflict.
func repeated(n *notification.Notification, a Accepted) Result {
	switch {
	case a.First == nil && a.At.IsZero():
		return Result{Err: &notification.ConflictError{ID: n.ID, Fields: []string{"user_id"}}}
	case a.First == nil: // it has ended and is forgotten, since the store saw it
		n.CreatedAt = a.At
		return Result{Notification: n, Known: true}
	}
	if fields := n.Differences(a.First); len(fields) > 0 {
		return Result{Err: &notification.ConflictError{ID: n.ID, Fields: fields}}
	}
	return Result{Notification: a.First, Known: true}
}
