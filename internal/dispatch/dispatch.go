// Package dispatch takes notifications from the store when their limits admit them, sends them, and settles them. It
// pulls a wake-up off the queue, asks the store which notifications of the wake-up's user may go, sends each of them
// at its moment, and writes what became of it.
//
//	pull ─▶ take ─┬─ grants ──▶ claim ─▶ send ─▶ settle (the store places the user's next wake-up)
//	         ▲    ├─ held ─────▶ until its moment ┐
//	         └────┼───────────────────────────────┘
//	              └─ back in the queue, or used up
//
// One [loop] serves each partition, in rounds: a round takes what is due, and pulls more wake-ups. Each delivery has a
// goroutine of its own, and holds a token of the capacity that all partitions share, until its provider has answered.
// The package declares the small interfaces that it needs; the queue, the stores and the senders implement them.
package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Config of a Dispatcher.
type Config struct {
	// Partitions is how many there are.
	Partitions int
	// Concurrency is how many deliveries may be in flight; as many more may be waiting for their results to be
	// written. Defaults to 256.
	Concurrency int
	// Held is how many wake-ups this process may hold, in all partitions together. Defaults to 4,096.
	Held int
	// Hold is how long a wake-up that is due waits for a delivery that may start. Then it goes back to the queue, so
	// that another process can serve it. Defaults to 1.5 s.
	Hold time.Duration
	// Early is how long before the slot of a held wake-up the store is asked; it grants a slot that is so close in
	// advance. Defaults to 38 ms.
	Early time.Duration
	// Stale is how late after its moment a grant is returned instead of used: windows may have moved on. The moment
	// counts from when the store was asked, the earliest that it can have been. After a late grant the next one of its
	// partition may be twice as late, until one comes in time. Defaults to 250 ms.
	Stale time.Duration
	// ClaimTimeout bounds the claim, and the archiving of a foreign task. Defaults to 10 s.
	ClaimTimeout time.Duration
	// SettleTimeout bounds the writing of a result, with its retries. A notification whose result was never written
	// may be delivered again. After a try that fails, the delivery counts as in flight, and keeps its token and its
	// lease. Defaults to 10 min.
	SettleTimeout time.Duration
	// ReleaseTimeout is how long after Stop the dispatcher goes on trying to release wake-ups and to write results.
	// Defaults to 10 s.
	ReleaseTimeout time.Duration
	// DrainTimeout is how long Stop waits for deliveries in flight. A little before its end it cuts short what is still
	// being sent, so that the result can be written. Defaults to 20 s.
	DrainTimeout time.Duration
	// Settings gives what holds now for the deliveries of a category over a channel. Defaults to
	// [notification.DefaultDelivery].
	Settings func(category string, channel notification.Channel) Settings
	// Random gives uniform numbers in [0, 1). Defaults to [mathrand.Float64].
	Random func() float64
	// MaxDefer gives how long a notification of a category may wait for its slot, or for a provider that asks it to
	// slow down. Defaults to no bound.
	MaxDefer func(category string) time.Duration
	// Shown says how many of a digest of a category a message shows, and whether these are the oldest instead of the
	// newest. Defaults to the ten newest.
	Shown func(category string) (items int, oldest bool)
	// Passive reports whether a notification that goes out at a moment is not to disturb its user. Defaults to never.
	Passive func(n *notification.Notification, at time.Time) bool
	// ChannelPaused gives how long notifications of a channel that operators paused wait before their next try; 0 when
	// the channel is not paused. Defaults to no pause.
	ChannelPaused func(channel notification.Channel) time.Duration
	// Resumed gives when a pause of a partition ended that this process saw; zero without one. Defaults to none.
	Resumed func(partition int) time.Time
	// Trace is called with each claimed grant, and with the times at which the store was asked for it and replied. It
	// returns the context of the delivery, and a function to call with the outcome. Defaults to no tracing.
	Trace func(ctx context.Context, g *Grant, asked, replied time.Time) (context.Context, func(o Outcome))
	// Observer is told what happens. Defaults to nobody.
	Observer Observer
	Log      *slog.Logger
}

// Settings are what holds for the deliveries of a category over a channel.
type Settings struct {
	notification.DeliverySettings
	// CategoryConcurrency is how many deliveries of the category a process makes at once, over whatever channels. 0 is
	// as many as it makes at all.
	CategoryConcurrency int
}

func (c Config) withDefaults() Config {
	c.Partitions = max(c.Partitions, 1)
	c.Concurrency = cmp.Or(c.Concurrency, 256)
	c.Held = cmp.Or(c.Held, 4096)
	c.Hold = cmp.Or(c.Hold, 1500*time.Millisecond)
	c.Early = cmp.Or(c.Early, 38*time.Millisecond)
	c.Stale = cmp.Or(c.Stale, 250*time.Millisecond)
	c.ClaimTimeout = cmp.Or(c.ClaimTimeout, 10*time.Second)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, 10*time.Minute)
	c.ReleaseTimeout = cmp.Or(c.ReleaseTimeout, 10*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 20*time.Second)
	if c.Settings == nil {
		c.Settings = func(string, notification.Channel) Settings {
			return Settings{DeliverySettings: notification.DefaultDelivery()}
		}
	}
	if c.Random == nil {
		c.Random = mathrand.Float64
	}
	if c.MaxDefer == nil {
		c.MaxDefer = func(string) time.Duration { return 0 }
	}
	if c.Shown == nil {
		c.Shown = func(string) (int, bool) { return 10, false }
	}
	if c.Passive == nil {
		c.Passive = func(*notification.Notification, time.Time) bool { return false }
	}
	if c.Trace == nil {
		c.Trace = func(ctx context.Context, _ *Grant, _, _ time.Time) (context.Context, func(Outcome)) {
			return ctx, func(Outcome) {}
		}
	}
	if c.ChannelPaused == nil {
		c.ChannelPaused = func(notification.Channel) time.Duration { return 0 }
	}
	if c.Resumed == nil {
		c.Resumed = func(int) time.Time { return time.Time{} }
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// Dispatcher serves the partitions and makes the deliveries.
type Dispatcher struct {
	cfg     Config
	store   Store
	queue   Queue
	senders push.Registry

	staleness staleness
	capacity  *capacity
	places    *places
	nonce     string
	rounds    atomic.Uint64

	// stopping ends with Stop; releasing ends Config.ReleaseTimeout after it, or when all loops have released their
	// wake-ups; settling the same, or when all deliveries have ended; sending a little before Stop stops waiting.
	stopping, releasing, settling, sending      context.Context //nolint:containedctx // see above
	stop, endReleasing, endSettling, endSending context.CancelFunc
	once                                        sync.Once

	claims, sends, settles *deadlines // of the calls that a delivery makes
	leases                 *leases

	loops, archiving, deliveries sync.WaitGroup
}

// New makes a Dispatcher.
func New(cfg Config, store Store, queue Queue, senders push.Registry) *Dispatcher {
	cfg = cfg.withDefaults()
	d := &Dispatcher{
		cfg: cfg, store: store, queue: queue, senders: senders,
		staleness: staleness{limit: cfg.Stale}, capacity: newCapacity(cfg.Concurrency), places: newPlaces(),
		nonce: rand.Text()[:12],
	}
	d.stopping, d.stop = context.WithCancel(context.Background())
	d.releasing, d.endReleasing = context.WithCancel(context.Background())
	d.settling, d.endSettling = context.WithCancel(context.Background())
	d.sending, d.endSending = context.WithCancel(context.Background())
	d.claims, d.sends, d.settles = newDeadlines(context.Background()), newDeadlines(d.sending), newDeadlines(d.settling)
	d.leases = newLeases(d.extend)
	return d
}

// Start begins to serve all partitions. A Dispatcher starts once.
func (d *Dispatcher) Start() {
	for number := range d.cfg.Partitions {
		d.loops.Go(newLoop(d, number).run)
	}
}

// What is still being sent is cut short settlesIn before Stop stops waiting, or a settleShare of its time: to write the
// results takes some milliseconds. What is cut short is tried again, by a process that knows of the attempt.
const (
	settlesIn   = 2 * time.Second
	settleShare = 10
)

// Stop ends the rounds, releases the wake-ups that are held, and waits for the deliveries in flight, for
// Config.DrainTimeout at most. It may be called more than once.
func (d *Dispatcher) Stop() {
	d.once.Do(func() {
		drain := time.NewTimer(d.cfg.DrainTimeout)
		defer drain.Stop()
		cut := time.AfterFunc(d.cfg.DrainTimeout-min(settlesIn, d.cfg.DrainTimeout/settleShare), d.endSending)
		defer cut.Stop()
		defer d.endSending()
		d.stop()
		done := make(chan struct{})
		go func() { defer close(done); d.drain() }()
		select {
		case <-done:
		case <-drain.C:
			d.cfg.Log.Warn("stopped before all deliveries had finished and the store had recorded them; "+
				"notifications still in flight may be sent again", "in_flight", d.Undone())
		}
	})
}

// drain waits for all that is under way. The driver of a store that does not respond may not heed its context: then
// drain takes as long as the driver does.
func (d *Dispatcher) drain() {
	releasing := time.AfterFunc(d.cfg.ReleaseTimeout, d.endReleasing)
	settling := time.AfterFunc(d.cfg.ReleaseTimeout, d.endSettling)
	d.loops.Wait()
	releasing.Stop()
	d.endReleasing()
	d.archiving.Wait()
	d.deliveries.Wait()
	settling.Stop()
	d.endSettling()
	d.leases.wait()
}

// InFlight is how many deliveries are being made. Those of which only the result is to be written are not counted.
func (d *Dispatcher) InFlight() int {
	sending, _ := d.capacity.inFlight()
	return sending
}

// Undone is how many deliveries have not ended: those in flight, and those of which the result is to be written.
func (d *Dispatcher) Undone() int {
	sending, settling := d.capacity.inFlight()
	return sending + settling
}

// roundID names a round; no other round of any process has its name. The numbers of one process grow.
func (d *Dispatcher) roundID() string { return d.nonce + "." + strconv.FormatUint(d.rounds.Add(1), 10) }

type nobody struct{}

func (nobody) Pulled(int)            {}
func (nobody) Decided(time.Duration) {}

func (nobody) Ended(notification.Status, string) {}
func (nobody) Deferred(string, string, int)      {}
func (nobody) Sent(*notification.Notification, time.Duration, time.Duration, time.Duration, *push.Error) {
}
