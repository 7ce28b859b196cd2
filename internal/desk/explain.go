package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
)

// Explanation is what has become of a notification, and why. Times are in UTC.
type Explanation struct {
	ID       string              `json:"id"`
	UserID   string              `json:"user_id"`
	Category string              `json:"category"`
	Channel  string              `json:"channel"`
	Priority string              `json:"priority"`
	Status   notification.Status `json:"status"`
	// Standing says what it waits for or how it ended, with the cause, in the words of [User].
	Standing  string `json:"standing"`
	Attempts  int    `json:"attempts"`
	Deferrals int    `json:"deferrals"`
	// Reason is the rule that it waits for, or why it ended. Detail says more, but for Reply: what the provider said to
	// the latest attempt.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	Reply  string `json:"reply,omitempty"`
	// DeliverAt is when it is expected to go out; nil while only people can tell, and once it has ended.
	DeliverAt *time.Time `json:"deliver_at,omitempty"`
	Ahead     int        `json:"ahead,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// Pause is what holds it back by order of an operator.
	Pause *control.Pause `json:"pause,omitempty"`
	// DigestID is the id of the digest that it went with.
	DigestID string `json:"digest_id,omitempty"`
	// PolicyVersion names the policy by which DeliverAt was found, or that admitted it last; Zone is the user's time
	// zone, where it mattered.
	PolicyVersion string `json:"policy_version,omitempty"`
	Zone          string `json:"zone,omitempty"`
	Timeline      []Step `json:"timeline"`
	// Contents are for those who may read them. Withheld says why somebody who asked does not get them.
	Contents *Contents `json:"contents,omitempty"`
	Withheld string    `json:"contents_withheld,omitempty"`
	// Devices is what became of it on each device, when it has no target of its own.
	Devices []DeviceResult `json:"devices,omitempty"`
	// Partial is true when Redis did not respond: what it knows is missing.
	Partial bool `json:"partial,omitempty"`
}

// Step is one entry of a timeline.
type Step struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Detail string    `json:"detail,omitempty"`
	Reply  string    `json:"reply,omitempty"`
	// Attempt is the number of an attempt, Outcome the status that it led to, or "crashed", and TookMS how long it took
	// in milliseconds, where that is known; of everything else they are absent.
	Attempt int     `json:"attempt,omitempty"`
	Outcome string  `json:"outcome,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	TookMS  float64 `json:"took_ms,omitempty"`
	// PolicyVersion and Zone are by what an attempt was admitted.
	PolicyVersion string `json:"policy_version,omitempty"`
	Zone          string `json:"zone,omitempty"`
}

// Tried is an attempt, with when the one after it began or is expected; nil where there is none.
type Tried struct {
	Step

	Next *time.Time
}

// Tried lists the attempts that are known.
func (e *Explanation) Tried() (all []Tried) {
	for _, s := range e.Timeline {
		if s.Attempt == 0 {
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].Next = &s.At
		}
		all = append(all, Tried{Step: s})
	}
	if n := len(all); n > 0 && e.Status == notification.StatusRetrying {
		all[n-1].Next = e.DeliverAt
	}
	return all
}

// Explain looks up a notification. It returns [notification.ErrNotFound] when there is none, as a [NotThisError] when
// the id is a user's.
func (d *Desk) Explain(ctx context.Context, id string) (*Explanation, error) {
	return patience.Ask(ctx, d.cfg.LookPatience, func(ctx context.Context) (*Explanation, error) {
		return d.explainNotUser(ctx, id)
	})
}

func (d *Desk) explainNotUser(ctx context.Context, id string) (*Explanation, error) {
	e, err := d.explain(ctx, id)
	if !errors.Is(err, notification.ErrNotFound) {
		return e, err
	}
	if u, userErr := d.user(ctx, id); userErr == nil && u.Known {
		return nil, &NotThisError{Asked: id, IsUser: true}
	}
	return nil, err
}

// Found is what has an id: a notification, or else a user.
type Found struct {
	Notification *Explanation `json:"notification,omitempty"`
	User         *User        `json:"user,omitempty"`
}

// LookUp looks for a notification with an id, or else for a user. It also finds a user of whom nothing is known.
func (d *Desk) LookUp(ctx context.Context, id string) (Found, error) {
	return patience.Ask(ctx, d.cfg.LookPatience, func(ctx context.Context) (found Found, err error) {
		if found.Notification, err = d.explain(ctx, id); errors.Is(err, notification.ErrNotFound) {
			found.User, err = d.user(ctx, id)
		}
		return found, err
	})
}

func (d *Desk) explain(ctx context.Context, id string) (*Explanation, error) {
	v, err := d.cfg.Store.View(ctx, id)
	if err != nil {
		return nil, err
	}
	s, err := d.situationNow(ctx, v.UserID)
	if err != nil {
		return nil, err
	}
	s.redisAway = s.redisAway || v.Partial
	e := &Explanation{
		ID: v.ID, UserID: v.UserID, Category: v.Category, Channel: string(v.Channel), Priority: v.Priority.String(),
		Status: v.Status, Attempts: v.Attempts, Deferrals: v.Deferrals, Reason: v.Reason,
		ExpiresAt: optional(v.ExpiresAt), Timeline: timeline(v), Contents: contents(&v.Notification),
		DigestID: v.DigestID, PolicyVersion: v.Basis.PolicyVersion, Zone: v.Basis.Zone,
		Partial: s.redisAway,
	}
	e.Detail, e.Reply = detailOf(v)
	if e.Standing, err = d.ended(ctx, v, e); err != nil {
		return nil, err
	}
	if v.Status.Waiting() {
		w := s.waitOf(v)
		e.Standing, e.DeliverAt = w.words, optional(w.at)
		switch w.state {
		case StateRemoved:
			e.Reason = notification.ReasonRemoved
		case StatePaused:
			e.Pause = s.pause(v.Category, string(v.Channel))
		default:
			e.Ahead = v.Ahead
		}
		if w.state == StateDeferred && !s.redisAway {
			windows, err := d.cfg.Agendas.UserWindows(ctx, v.UserID, v.Category)
			if err != nil {
				return nil, err
			}
			e.Standing += overused(&windows)
		}
	}
	if v.Channel.Kind() == notification.ChannelWebhook && v.Status != notification.StatusDelivered {
		e.Standing += d.endpointWords(v.To)
	}
	if v.DigestID != "" && v.DigestID != v.ID {
		e.Standing += "; it goes, or went, with the digest " + v.DigestID
	}
	if clocks := s.fleet.clocks(); clocks != "" {
		e.Standing += "; " + clocks
	}
	if v.To != "" {
		return e, nil
	}
	deliveries, err := d.cfg.Store.Deliveries(ctx, &v.Notification)
	for _, of := range deliveries {
		e.Devices = append(e.Devices, *result(of))
	}
	return e, err
}

// endpointWords say how the webhook endpoint of a URL does, after what else is said.
func (d *Desk) endpointWords(url string) string {
	if words := d.cfg.Endpoint(url); words != "" {
		return "; " + words
	}
	return ""
}

// detailOf tells pacer's own words about a reason from those of the provider.
func detailOf(v *notification.View) (detail, reply string) {
	switch v.Reason {
	case notification.ReasonMaxDefer, notification.ReasonQuietHours, notification.ReasonOverflow:
		return v.Detail, ""
	}
	return "", v.Detail
}

// heldBy are the reasons of what waits until somebody does something.
var heldBy = map[State]string{StatePaused: notification.ReasonPaused, StateRemoved: notification.ReasonRemoved}

// View is the store's view of a notification, but that one that is held until somebody does something is not expected
// at any moment.
func (d *Desk) View(ctx context.Context, id string) (*notification.View, error) {
	v, err := d.cfg.Store.View(ctx, id)
	if err != nil || !v.Status.Waiting() {
		return v, err
	}
	s, err := d.situation(ctx, v.UserID)
	if err != nil {
		return nil, err
	}
	w := s.waitOf(v)
	if reason := heldBy[w.state]; reason != "" {
		v.DeliverAt, v.Ahead, v.Reason, v.Detail = time.Time{}, 0, reason, w.words
	}
	return v, nil
}

// reasonExpiresAt is the reason of a notification whose expires_at came.
const reasonExpiresAt = "expires_at"

// waitedLast says what a notification that expired had waited for.
func waitedLast(timeline []Step) string {
	if held := lastDeferral(timeline); held != "" {
		return "while it was " + held
	}
	return "before it could go out"
}

// lastDeferral says until when a notification was deferred last, and by what; "" when it never was.
func lastDeferral(timeline []Step) string {
	for _, step := range slices.Backward(timeline) {
		if step.Kind == string(notification.StatusDeferred) {
			return step.Kind + " " + strings.TrimPrefix(step.Detail, step.Kind+" ")
		}
	}
	return ""
}

// ended says how a notification ended.
func (d *Desk) ended(ctx context.Context, v *notification.View, e *Explanation) (string, error) {
	switch e.Status {
	case notification.StatusSending:
		return "is being sent by " + e.Channel + atHost(v) + sendingSince(e.Timeline), nil
	case notification.StatusDelivered:
		if e.Reason == "" || e.Reason == string(notification.StatusDelivered) {
			return "delivered" + before(e.Timeline), nil
		}
		return e.Reason + before(e.Timeline), nil
	case notification.StatusReplaced:
		return "replaced: a newer notification with the same collapse_key took its place", nil
	case notification.StatusCancelled:
		if e.Reason == notification.ReasonOptedOut {
			return "cancelled: " + e.Reason, nil
		}
		if next, moved := strings.CutPrefix(e.Reason, notification.ReasonMoved); moved {
			return d.moved(ctx, v, next)
		}
		by, err := d.cfg.CancelledBy(ctx, e.ID)
		return "cancelled by " + cmp.Or(by, "its producer, or by an operator together with others"), err
	default:
	}
	return undelivered(v, e), nil
}

// sendingSince says when the attempt under way began.
func sendingSince(timeline []Step) string {
	if last := len(timeline) - 1; last >= 0 && timeline[last].Kind == notification.KindAttempt {
		return " since " + moment(timeline[last].At)
	}
	return ""
}

// before says what had held one that was sent in the end; "" when nothing had.
func before(timeline []Step) string {
	if held := lastDeferral(timeline); held != "" {
		return ", after it was " + held
	}
	return ""
}

// moved says under which id a notification goes on that was cancelled to be moved: next over the other channel, or
// another over its old one.
func (d *Desk) moved(ctx context.Context, v *notification.View, next string) (string, error) {
	back := successor(v, string(v.Channel))
	for _, way := range []struct{ id, words string }{
		{next, "cancelled to move it to another channel, where it goes on as " + next},
		{back, "cancelled to move it, but the other channel refused it: it goes on as " + back + " over its old channel"},
	} {
		_, err := d.cfg.Store.View(ctx, way.id)
		if err == nil {
			return way.words, nil
		}
		if !errors.Is(err, notification.ErrNotFound) {
			return "", err
		}
	}
	return "cancelled to move it to another channel, but the new notification, " + next + ", is not known or no longer kept", nil
}

// undelivered says why a notification failed or expired.
func undelivered(v *notification.View, e *Explanation) string {
	text := string(e.Status)
	if e.Reason != "" && e.Reason != text {
		text += ": " + e.Reason
	}
	if e.Status == notification.StatusFailed {
		return text + atHost(v) + before(e.Timeline)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Reason == reasonExpiresAt && e.ExpiresAt != nil {
		text += ": " + moment(*e.ExpiresAt) + " came " + waitedLast(e.Timeline)
	}
	return text
}

// timeline is the view's, but each fact stands once.
func timeline(v *notification.View) []Step {
	steps := make([]Step, 0, len(v.Timeline))
	for _, e := range v.Timeline {
		step := Step{At: utc(e.At), Kind: e.Kind, Detail: e.Detail, Reply: e.Reply}
		if a := e.Attempt; a != nil {
			step.Attempt, step.Outcome, step.Reason, step.TookMS = a.Number, a.Outcome, a.Reason, Milliseconds(a.Took)
			step.PolicyVersion, step.Zone = a.Basis.PolicyVersion, a.Basis.Zone
			if brief := *a; a.Reason == v.Reason && v.Status.Ended() {
				brief.Reason = "" // the explanation says it at its top
				step.Detail = brief.String()
			}
		}
		steps = append(steps, step)
	}
	if last := len(steps) - 1; v.Status.Ended() && last >= 0 && steps[last].Detail == v.Reason {
		steps[last].Detail = "" // likewise
	}
	return steps
}

// Milliseconds writes a duration for programs.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// NotThisError says that what was looked for is something else.
type NotThisError struct {
	// Asked is what was looked for, IsUser whether it is a user or a notification.
	Asked  string
	IsUser bool
}

// Unwrap makes it a [notification.ErrNotFound].
func (e *NotThisError) Unwrap() error { return notification.ErrNotFound }

// Error names the command that shows it.
func (e *NotThisError) Error() string {
	if e.IsUser {
		return fmt.Sprintf("%s is a user, not a notification: use dispatcher user %s", e.Asked, e.Asked)
	}
	return fmt.Sprintf("%s is a notification, not a user: use dispatcher explain %s", e.Asked, e.Asked)
}
