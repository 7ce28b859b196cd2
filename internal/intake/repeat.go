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
	err := eachPart(ctx, batch, pending, func(part []int) error {
		keys := make([]Key, len(part))
		for k, i := range part {
			n := results[i].Notification
			keys[k] = Key{batch[i].IdempotencyKey, fingerprint(&batch[i]), n.ID, in.longest(n) + keyLife}
		}
		reservations, err := in.cfg.Store.Reserve(ctx, keys)
		if err != nil {
			return err
		}
		var repeats []int
		var done []Reservation
		for k, i := range part {
			r := reservations[k]
			decided[i] = r.Claim != ClaimNew
			switch r.Claim {
			case ClaimNew:
				results[i].Notification.ID = r.ID
			case ClaimDone:
				repeats = append(repeats, i)
				done = append(done, r)
			case ClaimBusy:
				results[i] = Result{Err: ErrInProgress}
			case ClaimOther:
				results[i] = Result{Err: ErrKeyReused}
			}
		}
		return in.repeat(ctx, batch, results, repeats, done)
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pending, func(i int) bool { return decided[i] }), nil
}

// repeat makes the results of requests that were accepted before under their idempotency keys.
func (in *Intake) repeat(ctx context.Context, batch []Request, results []Result, of []int, done []Reservation) error {
	if len(of) == 0 {
		return nil
	}
	originals := make([]Original, len(of))
	for k, i := range of { // the same fingerprint is the same user
		originals[k] = Original{results[i].Notification.UserID, done[k].ID}
	}
	found, err := in.cfg.Store.Originals(ctx, originals)
	if err != nil {
		return err
	}
	for k, i := range of {
		results[i] = known(done[k], found[k], results[i].Notification, batch[i].Template != nil)
	}
	return nil
}

// commit commits the idempotency keys of requests that have been stored, also of those that are a conflict, so that a
// repeat gets the same response.
func (in *Intake) commit(ctx context.Context, batch []Request, results []Result, stored []int) error {
	return eachPart(ctx, batch, stored, func(part []int) error {
		keys := make([]AcceptedKey, len(part))
		for k, i := range part {
			keys[k].Key = batch[i].IdempotencyKey
			if n := results[i].Notification; n != nil {
				keys[k].At = n.CreatedAt
			}
		}
		return in.cfg.Store.Commit(ctx, keys)
	})
}

// eachPart asks the store about those of some requests that have an idempotency key, many at a time. It asks for no
// more after the first error, or when the context has ended: a store that is away may take its time over each part.
func eachPart(ctx context.Context, batch []Request, of []int, ask func(part []int) error) error {
	keyed := make([]int, 0, len(of))
	for _, i := range of {
		if batch[i].IdempotencyKey != "" {
			keyed = append(keyed, i)
		}
	}
	for part := range slices.Chunk(keyed, keysAtOnce) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ask(part); err != nil {
			return err
		}
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
	// lookupsAtOnce is of how many of them a store is asked side by side.
	lookupsAtOnce = 16
	// keysAtOnce is about how many idempotency keys of a batch a store is asked at a time.
	keysAtOnce = 500
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
		asking.Go(func() error { return in.recognizeOne(ctx, &batch[i], n, r) })
	}
	return asking.Wait()
}

// isFixed reports whether a fault is one at every moment.
func isFixed(fault *notification.FieldError) bool {
	return !slices.Contains(changing, fault.Field) && !strings.HasPrefix(fault.Field, "template")
}

// recognizeOne looks for what was accepted with the key of a refused request, or else with its id.
func (in *Intake) recognizeOne(ctx context.Context, request *Request, n *notification.Notification, r *Result) error {
	if request.IdempotencyKey != "" {
		return in.recognizeByKey(ctx, request, n, r)
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

// recognizeByKey looks for what was accepted with the key of a refused request. Its response may have been lost before
// the key was committed: the notification is there then, and the key is committed now.
func (in *Intake) recognizeByKey(ctx context.Context, request *Request, n *notification.Notification, r *Result) error {
	held, err := in.cfg.Store.Reserved(ctx, request.IdempotencyKey, fingerprint(request))
	if err != nil || held.ID == "" || held.Claim == ClaimOther {
		return err
	}
	found, err := in.cfg.Store.Originals(ctx, []Original{{n.UserID, held.ID}})
	switch {
	case err != nil:
		return err
	case found[0] == nil && held.Claim == ClaimBusy:
		r.Err = ErrInProgress
		return nil
	case found[0] == nil && held.Claim == ClaimNew:
		return nil
	case held.Claim != ClaimDone:
		err = in.cfg.Store.Commit(ctx, []AcceptedKey{{request.IdempotencyKey, found[0].CreatedAt}})
	}
	*r = known(held, found[0], n, request.Template != nil)
	return err
}

// known is the result of a request whose idempotency key has a notification that was accepted before. Once the store
// has forgotten that, first is nil, and the result has n, which the request would make. When the id that the request
// names was taken already, it is still a conflict; templates may make another content by now, so what they made is not
// compared.
func known(done Reservation, first, n *notification.Notification, made bool) Result {
	switch {
	case first == nil:
		n.ID, n.CreatedAt = done.ID, done.At
		return Result{Notification: n, Known: true}
	case first.UserID != n.UserID: // the id was another user's already when the key was used first
		return Result{Err: &notification.ConflictError{ID: done.ID, Fields: []string{"user_id"}}}
	case done.ID == n.ID && !made:
		return repeated(n, Accepted{At: first.CreatedAt, First: first})
	}
	return Result{Notification: first, Known: true}
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
