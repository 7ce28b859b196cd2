// Package intake accepts notifications. It fills in a notification's defaults, checks its fields, category, target and
// content, finds out by id and idempotency key whether it is a repeat, and stores it.
//
// A stored notification is accepted. The store makes sure that its user has a wake-up.
package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Request asks to accept a notification. Empty fields get their defaults.
type Request struct {
	notification.Notification
	// IdempotencyKey makes repeats of the same request one notification. It has at most 255 characters.
	IdempotencyKey string
	// Template makes the title and the body. Nil means that they are given.
	Template *Template
	// Promise asks for a promise of when it goes. MaxWait refuses it when that is longer from now, or from its send_at;
	// nil for any time. With either, it is also refused when it would end as expired before it goes.
	Promise bool
	MaxWait *time.Duration
}

// Template names a template and the data to fill it with.
type Template struct {
	Name string `json:"name"`
	// Locale is the preferred locale, such as de-AT. Title and body are taken from the nearest that has them.
	Locale string `json:"locale,omitempty"`
	// Data is a JSON object with the values that the template uses.
	Data json.RawMessage `json:"data,omitempty"`
}

// Result is what became of a request.
type Result struct {
	// Notification is the notification as it was accepted: now, or before when Known is true.
	Notification *notification.Notification
	Known        bool
	// Promise says when it goes, if the request asked for that.
	Promise *notification.Promise
	// Err says why the request was refused: [notification.FieldError]s, a [notification.ConflictError], a
	// [notification.TooLateError], a [notification.OverflowError], a [notification.LockedError], [ErrKeyReused] or
	// [ErrUnstorable].
	Err error
}

// ErrKeyReused says that the idempotency key of a request belongs to a notification that another request made.
var ErrKeyReused = errors.New("idempotency_key: was used for another notification; repeat that one unchanged, or use " +
	"another key")

// ErrUnstorable says that the store can't keep a notification, because of a value that all checks have let pass. To
// repeat it does not help.
var ErrUnstorable = errors.New("the store can't keep a value in this notification, so it was not accepted; the log of " +
	"the dispatcher has the database's error")

// ErrFull says that a batch was refused because the store has no room for more. Nothing of it was accepted.
var ErrFull = errors.New("no room for more notifications")

// Rules are what the policy and the channels say of a notification.
type Rules interface {
	// CheckCategory refuses a category that the policy does not name, with a [notification.FieldError].
	CheckCategory(name string) error
	// MaxContent is how long title, body and data together may be on a channel, in bytes.
	MaxContent(channel notification.Channel) int
	// CheckDelivery refuses what the channel could not deliver, with a [notification.FieldError] each: a channel that
	// isn't configured, on "channel"; a target that can't be right, on "to"; content that its provider would refuse.
	CheckDelivery(n *notification.Notification) error
}

// Config of an Intake.
type Config struct {
	Store Store
	Rules Rules
	// Render makes a notification's content from a template; [notification.FieldError]s say why it can't. By default
	// there are no templates.
	Render func(t *Template, n *notification.Notification) error
	// HasDevice reports whether a user has an active device on a channel. It is asked for notifications that name no
	// target. By default they are accepted without asking.
	HasDevice func(ctx context.Context, userID string, channel notification.Channel) (bool, error)
	// Promises reports when notifications go, one promise for each, in order. It fails while that can't be told, within
	// a bounded time. By default it always fails.
	Promises func(ctx context.Context, requests []notification.PromiseRequest) ([]notification.Promise, error)
	// Trace is called with each notification before it is stored, and notes its trace. It returns a function to call
	// afterwards. Defaults to no tracing.
	Trace func(ctx context.Context, n *notification.Notification) func(error)
	// Full reports whether the store has no room for more. Then batches are refused with [ErrFull]. Defaults to never.
	Full func() bool
	// Accepted is called with the category of each newly accepted notification. Defaults to doing nothing.
	Accepted func(category string)
	Log      *slog.Logger
	// Clock says the time, for the limits of send_at and expires_at. Defaults to time.Now.
	Clock func() time.Time
}

// Intake accepts notifications.
type Intake struct{ cfg Config }

// New makes an Intake.
func New(cfg Config) *Intake {
	if cfg.Accepted == nil {
		cfg.Accepted = func(string) {}
	}
	if cfg.Full == nil {
		cfg.Full = func() bool { return false }
	}
	if cfg.Promises == nil {
		cfg.Promises = func(context.Context, []notification.PromiseRequest) ([]notification.Promise, error) {
			return nil, ErrNoPromise
		}
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	cfg.Store = patient{cfg.Store}
	return &Intake{cfg: cfg}
}

// MadeHere reports whether an id has the form of the ids that intake makes. A producer may choose such an id, too.
func MadeHere(id string) bool {
	parsed, err := uuid.Parse(id)
	return err == nil && len(id) == 36 && parsed.Version() == 7
}

// Accept accepts what it can of a batch, and returns one result for each request, in order. An error concerns the whole
// batch: the store could not be reached, and it is unknown which notifications were accepted. It is safe to repeat the
// batch with the same ids or idempotency keys.
func (in *Intake) Accept(ctx context.Context, batch []Request) ([]Result, error) {
	if in.cfg.Full() {
		return nil, ErrFull
	}
	results := make([]Result, len(batch))
	pending := make([]int, 0, len(batch))
	keys := map[string]int{} // idempotency key → index of the first request with it in this batch
	same := map[int]int{}    // index → index of the first request with the same key
	for i := range batch {
		n, err := in.complete(&batch[i])
		results[i] = Result{Notification: n, Err: err}
		if err != nil {
			continue
		}
		if key := batch[i].IdempotencyKey; key != "" {
			if first, repeated := keys[key]; repeated {
				same[i] = first
				continue
			}
			keys[key] = i
		}
		pending = append(pending, i)
	}
	pending, err := in.withDevices(ctx, results, pending)
	if err != nil {
		return nil, err
	}
	if pending, err = in.refuseTooLate(ctx, batch, results, pending); err != nil {
		return nil, err
	}
	if err := in.recognize(ctx, batch, results); err != nil {
		return nil, err
	}
	looked := promisesOf(results)
	if err := in.store(ctx, results, pending); err != nil {
		return nil, err
	}
	for i, first := range same {
		results[i] = repeatOf(&batch[i], &batch[first], results[first])
	}
	in.promise(ctx, batch, results, looked)
	return results, nil
}

// withDevices refuses notifications without a target whose user has no device on the channel. It returns the others.
func (in *Intake) withDevices(ctx context.Context, results []Result, pending []int) ([]int, error) {
	if in.cfg.HasDevice == nil {
		return pending, nil
	}
	type where struct {
		userID  string
		channel notification.Channel
	}
	asked := map[where]bool{}
	remaining := pending[:0]
	for _, i := range pending {
		n := results[i].Notification
		at := where{n.UserID, n.Channel}
		has, known := asked[at]
		if n.To == "" && n.Channel != notification.ChannelLog && !known {
			var err error
			if has, err = in.hasDevice(ctx, n.UserID, n.Channel); err != nil {
				return nil, err
			}
			asked[at] = has
		}
		if n.To == "" && n.Channel != notification.ChannelLog && !has {
			results[i].Err = &notification.FieldError{
				Field: "to", Message: "is required: the user has no active device on the channel " + string(n.Channel),
			}
			continue
		}
		remaining = append(remaining, i)
	}
	return remaining, nil
}

// Complete returns what a notification leaves out: an id, and the defaults.
func Complete(n notification.Notification) (notification.Notification, error) {
	if n.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return n, fmt.Errorf("make an id: %w", err)
		}
		n.ID, n.IDMade = id.String(), true
	}
	if n.Category == "" {
		n.Category = "default"
	}
	if n.Channel == "" {
		n.Channel = notification.ChannelWebhook
	}
	if n.Priority == 0 {
		n.Priority = notification.PriorityNormal
	}
	return n, nil
}

// complete fills in the defaults and checks everything that can be checked without the store. With an error the
// notification is what was refused.
func (in *Intake) complete(r *Request) (*notification.Notification, error) {
	n, err := Complete(r.Notification)
	if err != nil {
		return nil, err
	}
	if r.IdempotencyKey != "" {
		n.IdempotencyKey, n.Fingerprint = r.IdempotencyKey, fingerprint(r)
	}
	var faults []error
	if r.Template != nil {
		faults = append(faults, in.render(r.Template, &n))
	}
	faults = append(faults, n.Validate(in.cfg.Clock(), in.cfg.Rules.MaxContent(n.Channel)))
	faults = append(faults, in.cfg.Rules.CheckCategory(n.Category), in.cfg.Rules.CheckDelivery(&n),
		checkKey(r.IdempotencyKey))
	return &n, errors.Join(faults...)
}

// render puts the content of a template into a notification.
func (in *Intake) render(t *Template, n *notification.Notification) error {
	if n.Title != "" || n.Body != "" {
		return &notification.FieldError{Field: "template", Message: "makes title and body, so these must be empty"}
	}
	if in.cfg.Render == nil {
		return &notification.FieldError{Field: "template.name", Message: fmt.Sprintf(
			"%q is unknown: the dispatchers have no folder of templates (--templates, PACER_TEMPLATES)", t.Name)}
	}
	return in.cfg.Render(t, n)
}

func checkKey(key string) error {
	if len(key) > notification.MaxIdempotencyKey {
		return &notification.FieldError{
			Field: "idempotency_key", Message: fmt.Sprintf("may have at most %d characters, has %d",
				notification.MaxIdempotencyKey, len(key)),
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return &notification.FieldError{Field: "idempotency_key", Message: "may hold only printable ASCII characters"}
	}
	return nil
}

// store stores the pending notifications.
func (in *Intake) store(ctx context.Context, results []Result, pending []int) error {
	if len(pending) == 0 {
		return nil
	}
	notifications := make([]*notification.Notification, len(pending))
	for i, index := range pending {
		notifications[i] = results[index].Notification
	}
	stored := in.trace(ctx, notifications)
	accepted, err := in.cfg.Store.Accept(ctx, notifications)
	stored(err)
	if err != nil {
		return err
	}
	for i, index := range pending {
		r := &results[index]
		switch {
		case accepted[i].Err != nil:
			*r = Result{Err: accepted[i].Err}
			in.tellSlot(ctx, results, notifications[i])
		case accepted[i].Known:
			*r = repeated(r.Notification, accepted[i].First)
		default:
			in.cfg.Accepted(r.Notification.Category)
		}
	}
	return nil
}

// trace starts the traces of notifications that are about to be stored.
func (in *Intake) trace(ctx context.Context, notifications []*notification.Notification) func(error) {
	if in.cfg.Trace == nil {
		return func(error) {}
	}
	ends := make([]func(error), len(notifications))
	for i, n := range notifications {
		ends[i] = in.cfg.Trace(ctx, n)
	}
	return func(err error) {
		for _, end := range ends {
			end(err)
		}
	}
}
