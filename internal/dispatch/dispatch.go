// Package dispatch is pacer's use case: a tick is pulled off the queue, the record is asked who may run, the delivery is
// held until its exact moment, sent, and settled.
//
//	pull ─▶ take ─┬─ run ──▶ send ──▶ settle ─┬─ ended
//	          ▲   │                           └─ retry: the tick comes again
//	          │   ├─ wait, soon ──▶ hold in place ┐
//	          └───┼───────────────────────────────┘
//	              ├─ wait, later ─▶ deferral: the tick comes again
//	              └─ nothing left
//
// The package declares the small interfaces that it needs; queue, record and senders stand behind them.
package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Config of a Dispatcher.
type Config struct {
	// Concurrency is how many deliveries may be in flight. Defaults to 256.
	Concurrency int
	// Hold is how long a tick is kept in place instead of going back to the queue, whose times are whole seconds.
	// It must be longer than the second that a queue rounds down and the lead with which it wakes. Defaults to 1.5 s.
	Hold time.Duration
	// Early is how long before its slot a held tick asks; the record grants a slot that close for its own moment.
	// Defaults to 5 ms.
	Early time.Duration
	// Stale is how late after its moment a grant is given back instead of used: windows may have moved on. The moment is
	// taken to be as early as it can have been, counted from when it was asked for. After a late grant of a lane the next
	// one to be asked for may be twice as late, until one is in time. Defaults to 250 ms.
	Stale time.Duration
	// SendTimeout bounds one delivery. Defaults to 10 s.
	SendTimeout time.Duration
	// SettleTimeout bounds the writing of a result, with its retries: what is given up may be delivered again. While it is
	// tried, the delivery counts as in flight, and keeps its room. Defaults to 30 s.
	SettleTimeout time.Duration
	// Farewell is how long after Stop results are still tried to be written. Defaults to 10 s.
	Farewell time.Duration
	// Retry gives the current retry policy.
	Retry func() RetryPolicy
	// MaxDefer tells how long a notification of a category may wait for its slot, and for a provider that only asks it to slow
	// down. Defaults to no bound.
	MaxDefer func(category string) time.Duration
	// CategoryRests and ChannelRests tell how long what belongs to one has to stay away because operators paused it; 0 when
	// it does not rest. Default to never.
	CategoryRests func(category string) time.Duration
	ChannelRests  func(channel notification.Channel) time.Duration
	// Trace is told of each grant, when it was asked for and answered, before it is delivered; it gives the context to
	// deliver under and what is to be called with the outcome. Defaults to no tracing.
	Trace func(ctx context.Context, g *Grant, asked, answered time.Time) (context.Context, func(o Outcome))
	// Observer is told what happens. Defaults to nobody.
	Observer Observer
	Log      *slog.Logger
}

// RetryPolicy says how often and when a failed delivery is tried again.
type RetryPolicy struct {
	// MaxAttempts is how many failures end the notification.
	MaxAttempts int
	// Backoff gives the wait after that many failures.
	Backoff func(failures int) time.Duration
}

func (c Config) withDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, 256)
	c.Hold = cmp.Or(c.Hold, 1500*time.Millisecond)
	c.Early = cmp.Or(c.Early, 5*time.Millisecond)
	c.Stale = cmp.Or(c.Stale, 250*time.Millisecond)
	c.SendTimeout = cmp.Or(c.SendTimeout, 10*time.Second)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, 30*time.Second)
	c.Farewell = cmp.Or(c.Farewell, 10*time.Second)
	if c.CategoryRests == nil {
		c.CategoryRests = func(string) time.Duration { return 0 }
	}
	if c.MaxDefer == nil {
		c.MaxDefer = func(string) time.Duration { return 0 }
	}
	if c.Trace == nil {
		c.Trace = func(ctx context.Context, _ *Grant, _, _ time.Time) (context.Context, func(Outcome)) {
			return ctx, func(Outcome) {}
		}
	}
	if c.ChannelRests == nil {
		c.ChannelRests = func(notification.Channel) time.Duration { return 0 }
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// Dispatcher handles ticks. Any number of goroutines may call Handle.
type Dispatcher struct {
	cfg     Config
	record  Record
	queue   Queue
	senders push.Registry

	patience patience
	room     chan struct{} // one token per delivery in flight
	inFlight atomic.Int64
	stopped  context.Context //nolint:containedctx // ends with Stop
	stop     context.CancelFunc
	stopping <-chan struct{}
	nonce    string
	asked    atomic.Uint64
}

// New makes a Dispatcher.
func New(cfg Config, record Record, queue Queue, senders push.Registry) *Dispatcher {
	cfg = cfg.withDefaults()
	stopped, stop := context.WithCancel(context.Background())
	return &Dispatcher{
		cfg: cfg, record: record, queue: queue, senders: senders,
		patience: patience{limit: cfg.Stale},
		room:     make(chan struct{}, cfg.Concurrency),
		stopped:  stopped, stop: stop, stopping: stopped.Done(),
		nonce: rand.Text()[:12],
	}
}

// InFlight is how many deliveries are being made.
func (d *Dispatcher) InFlight() int { return int(d.inFlight.Load()) }

// Stop lets no further delivery start: ticks that are held or arrive are deferred at once. Deliveries in flight go on.
func (d *Dispatcher) Stop() { d.stop() }

// Handle works one tick that came off the queue. It returns nil when the tick is used up, a [*DeferralError] when it has
// to come again, and any other error when the record could not be reached.
func (d *Dispatcher) Handle(ctx context.Context, tick Tick) error {
	err := d.handle(ctx, tick)
	if deferral, ok := errors.AsType[*DeferralError](err); err != nil && (!ok || deferral == nil) {
		d.cfg.Log.WarnContext(ctx, "a tick failed; the queue or the sweeper brings another", "error", err)
	}
	return err
}

func (d *Dispatcher) handle(ctx context.Context, tick Tick) error {
	d.cfg.Observer.Pulled()
	if wait := d.cfg.CategoryRests(tick.Category); wait > 0 {
		return &DeferralError{Until: time.Now().Add(wait)}
	}
	slot := time.Time{}
	for pulled := true; ; pulled = false {
		wait, answeredAt, again, err := d.turn(ctx, tick, pulled, slot)
		if again {
			continue
		}
		if err != nil || wait == nil {
			return err
		}
		if slot = answeredAt.Add(wait.For); !d.hold(ctx, slot, wait) {
			return &DeferralError{Until: slot}
		}
	}
}

// turn asks once, with room to deliver, and makes the delivery that is granted. It gives the wait that was answered, if
// any; again is true when the tick has to ask again at once.
func (d *Dispatcher) turn(ctx context.Context, tick Tick, pulled bool, slot time.Time) (wait *Wait, answeredAt time.Time, again bool, err error) {
	if !d.enter(ctx) {
		return nil, time.Time{}, false, &DeferralError{Until: time.Now()}
	}
	defer d.leave() // after a panic too: the queue survives it, and must not run out of room
	asked := time.Now()
	answer, answeredAt, err := d.ask(ctx, tick, pulled)
	if err != nil {
		return nil, answeredAt, false, fmt.Errorf("take for category %s in lane %d: %w", tick.Category, tick.Lane, err)
	}
	if answer.Grant != nil {
		if answer.Grant.AskedAt.IsZero() {
			answer.Grant.AskedAt = asked
		}
		traced, ended := d.cfg.Trace(ctx, answer.Grant, asked, answeredAt)
		again, err = d.run(traced, answer.Grant, answeredAt, slot, ended)
		return nil, answeredAt, again, err
	}
	return answer.Wait, answeredAt, false, nil
}

// enter waits for room to deliver: the decision belongs to the moment when a worker is free.
func (d *Dispatcher) enter(ctx context.Context) bool {
	select {
	case <-d.stopping:
		return false
	default:
	}
	select {
	case d.room <- struct{}{}:
		return true
	case <-d.stopping:
		return false
	case <-ctx.Done():
		return false
	}
}

func (d *Dispatcher) leave() { <-d.room }

func (d *Dispatcher) ask(ctx context.Context, tick Tick, pulled bool) (Answer, time.Time, error) {
	start := time.Now()
	nonce := d.nonce + strconv.FormatUint(d.asked.Add(1), 36)
	answer, err := d.record.Take(ctx, Question{Tick: tick, Nonce: nonce, Pulled: pulled})
	answeredAt := time.Now()
	if answer.Extra != nil {
		// A tick that gets lost here is replaced by the sweeper.
		if err := d.queue.Enqueue(ctx, *answer.Extra); err != nil {
			d.cfg.Log.WarnContext(ctx, "enqueue an extra tick; the sweeper will replace it", "lane", tick.Lane, "error", err)
		}
	}
	if err != nil {
		return Answer{}, answeredAt, err
	}
	d.cfg.Observer.Decided(answeredAt.Sub(start))
	if pulled && answer.Wait != nil && answer.Wait.Rule != "" {
		d.cfg.Observer.Deferred(tick.Category, answer.Wait.Rule)
	}
	return answer, answeredAt, nil
}

// hold keeps the tick in place until shortly before its slot; false when it has to go back to the queue.
func (d *Dispatcher) hold(ctx context.Context, slot time.Time, w *Wait) bool {
	wait := time.Until(slot)
	if wait > d.cfg.Hold {
		return false
	}
	if w.Rule != "" {
		wait -= d.cfg.Early
	}
	return d.sleep(ctx, wait)
}

// sleep waits; false when stopped before.
func (d *Dispatcher) sleep(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.stopping:
		return false
	case <-ctx.Done():
		return false
	}
}

// run makes one granted delivery, tells its outcome and settles it. It returns true when the tick has to ask again.
func (d *Dispatcher) run(ctx context.Context, g *Grant, answeredAt, slot time.Time, ended func(Outcome)) (again bool, err error) {
	d.inFlight.Add(1)
	defer d.inFlight.Add(-1)
	moment := answeredAt.Add(g.StartIn)
	if wait := time.Until(moment); wait > 0 {
		// At most the record's horizon, some milliseconds: not worth interrupting for a shutdown.
		timer := time.NewTimer(wait)
		<-timer.C
	}
	if d.patience.late(g.Lane, g.AskedAt, g.StartIn) {
		late := Outcome{Fate: Returned, Reason: "late", Refund: true}
		d.cfg.Observer.Deferred(g.Notification.Category, late.Reason)
		d.cfg.Log.DebugContext(ctx, "a grant came late and is given back", "notification_id", g.Notification.ID)
		ended(late)
		_, err := d.settle(ctx, g, late)
		return err == nil, err
	}
	if slot.IsZero() || slot.After(moment) {
		slot = moment
	}
	outcome := d.deliver(ctx, g, slot)
	ended(outcome)
	settlement, err := d.settle(ctx, g, outcome)
	switch {
	case err != nil:
		return false, err
	case settlement.Stale:
		d.cfg.Log.WarnContext(ctx, "result came after the lease had ended; it was not written",
			"notification_id", g.Notification.ID, "attempt", g.Attempt)
		return false, nil
	case settlement.RetryIn > 0:
		return false, &DeferralError{Until: time.Now().Add(settlement.RetryIn)}
	}
	return false, nil
}

func (d *Dispatcher) deliver(ctx context.Context, g *Grant, slot time.Time) Outcome {
	start := time.Now()
	err := d.send(ctx, g)
	end := time.Now()
	classified := push.Classify(err)
	if classified != nil && classified.Class == push.AlreadyDelivered {
		return d.judge(g, classified)
	}
	if classified != nil && classified.Class == push.Throttled && classified.Unsent {
		// Nobody was asked: it waits for its provider's budget, or until the provider is back.
		d.cfg.Observer.Deferred(g.Notification.Category, classified.Code)
		return d.judge(g, classified)
	}
	d.cfg.Observer.Sent(g.Notification, end.Sub(start), max(0, start.Sub(slot)), end.Sub(g.Notification.CreatedAt), classified)
	outcome := d.judge(g, classified)
	if d.cfg.Log.Enabled(ctx, slog.LevelDebug) {
		d.cfg.Log.DebugContext(ctx, "delivery", "notification_id", g.Notification.ID, "channel", g.Notification.Channel,
			"attempt", g.Attempt, "outcome", outcome.Reason)
	}
	return outcome
}

// send calls the channel's sender. A shutdown does not interrupt it: the process waits for it.
func (d *Dispatcher) send(ctx context.Context, g *Grant) (err error) {
	if wait := d.cfg.ChannelRests(g.Notification.Channel); wait > 0 {
		return &push.Error{Class: push.Throttled, Code: "paused_by_operator", RetryAfter: wait, Unsent: true}
	}
	sender, ok := d.senders[g.Notification.Channel]
	if !ok {
		return &push.Error{Class: push.Transient, Code: "channel_not_configured", Unsent: true}
	}
	defer func() {
		if p := recover(); p != nil {
			err = &push.Error{Class: push.Ambiguous, Code: "panic", Err: fmt.Errorf("sender panicked: %v", p)}
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.SendTimeout)
	defer cancel()
	return sender.Send(ctx, push.Message{Notification: g.Notification, Attempt: g.Attempt, AdmittedAt: g.AdmittedAt})
}

type nobody struct{}

func (nobody) Pulled()                 {}
func (nobody) Decided(time.Duration)   {}
func (nobody) Deferred(string, string) {}
func (nobody) Sent(*notification.Notification, time.Duration, time.Duration, time.Duration, *push.Error) {
}
