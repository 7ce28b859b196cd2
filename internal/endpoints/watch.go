package endpoints

import (
	"context"
	"errors"
	"time"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/push"
)

// CodeDisabled is the code with which a notification to a disabled endpoint fails.
const CodeDisabled = "endpoint_disabled"

// watched is the sender of webhooks. It sends nothing to disabled endpoints, and sees what becomes of the others.
type watched struct {
	push.Sender
	directory *Directory
}

// Send implements [push.Sender].
func (w *watched) Send(ctx context.Context, m push.Message) error {
	e := w.directory.find(m.To)
	if e == nil {
		return w.Sender.Send(ctx, m)
	}
	if e.disabled() {
		return &push.Error{Class: push.Permanent, Code: CodeDisabled, Unsent: true, Concerns: push.ConcernsTarget}
	}
	failure := push.Classify(w.Sender.Send(ctx, m))
	e.see(observe(failure, w.directory.now()))
	if failure == nil {
		return nil
	}
	return failure
}

func (e *entry) disabled() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.endpoint.Disabled()
}

func (e *entry) see(o Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.add(o)
}

// observe says what the outcome of one delivery tells of its endpoint. Nothing, when nothing was tried.
func observe(failure *push.Error, now time.Time) Observation {
	switch {
	case failure == nil:
		return Observation{Success: now}
	case failure.Unsent && failure.Class == push.Throttled, failure.Code == "cancelled", failure.Code == "bad_request":
		return Observation{}
	}
	o := Observation{
		FirstFailure: now, LastFailure: now, Failures: 1, Failure: failure.Class.String() + ": " + failure.Code,
		Reply: failure.Reply,
	}
	if failure.Class == push.TargetGone {
		o.Gone = now
	}
	return o
}

// note writes what was seen and is due; all failures, when this process stops.
func (d *Directory) note(ctx context.Context, stops bool) {
	for _, e := range d.all() {
		seen, id, due := e.due(d.cfg.Now(), d.noteEvery, stops)
		if !due {
			continue
		}
		if err := d.write(ctx, e, id, seen); err != nil {
			e.giveBack(seen)
			d.cfg.Log.WarnContext(ctx, "could not note the health of a webhook endpoint; retrying", "endpoint", id,
				"error", err)
			return // the store is away; what was seen of others waits too
		}
	}
}

// due takes what was seen, if it is to be written now: at once what changes the endpoint's health, at most every so
// often that it goes on failing, and once an hour that it goes on well.
func (e *entry) due(now time.Time, every time.Duration, stops bool) (seen Observation, id string, due bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	failing := e.endpoint.Failing()
	switch seen = e.seen; {
	case !seen.Gone.IsZero() && !e.endpoint.Disabled():
	case failing && !seen.Success.IsZero():
	case seen.Failures > 0 && (stops || now.Sub(e.notedAt) >= every):
	case !seen.Success.IsZero() && now.Sub(e.successAt) >= noteSuccessEvery:
	default:
		return seen, "", false
	}
	e.seen, e.notedAt = Observation{}, now
	if !seen.Success.IsZero() {
		e.successAt = now
	}
	return seen, e.endpoint.ID, true
}

// giveBack keeps what could not be written.
func (e *entry) giveBack(seen Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen.add(e.seen)
	e.seen, e.notedAt, e.successAt = seen, time.Time{}, time.Time{}
}

// write writes what was seen of an endpoint, and takes in what is known of it then.
func (d *Directory) write(ctx context.Context, e *entry, id string, seen Observation) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var happened []events.Event
	changed, err := d.store.Change(ctx, id, func(e *Endpoint, now time.Time) ([]events.Event, error) {
		happened = e.note(e.ID, seen, now, d.cfg.DisableAfter)
		return happened, nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case len(happened) > 0 && changed.Disabled():
		d.cfg.Log.WarnContext(ctx,
			"a webhook endpoint is disabled: nothing more is sent to it until somebody enables it", "endpoint", id, "reason", changed.DisabledBecause)
	case len(happened) > 0:
		d.cfg.Log.InfoContext(ctx, "a webhook endpoint is enabled again: a delivery to it had succeeded, which was noted only now",
			"endpoint", id)
	}
	e.mu.Lock()
	e.endpoint.Health = changed.Health
	e.mu.Unlock()
	return nil
}
