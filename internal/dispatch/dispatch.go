// Package dispatch is pacer's use case: a wake-up is pulled off the queue, the store is asked which notifications of its user
// may go, each of them is sent in its moment, and what became of it is settled.
//
//	pull ─▶ ask ─┬─ grants ──▶ claim ─▶ send ─▶ settle (and the store sees to the next wake-up)
//	         ▲   ├─ held ─────▶ until its moment ┐
//	         └───┼────────────────────────────────┘
//	             └─ back in the queue, or used up
//
// Each partition is served by one loop, which makes one round at a time: it asks for the wake-ups that are due, and pulls more.
// Each delivery is a goroutine of its own, with a token of the room that all partitions share. The package declares the small
// interfaces that it needs; queue, store and senders stand behind them.
package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
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
	// Concurrency is how many deliveries may be in flight. Defaults to 256.
	Concurrency int
	// Held is how many wake-ups this process may have in hand, over all partitions. Defaults to 4,096.
	Held int
	// Hold is how long a wake-up that is due waits for room to deliver. Then it goes back to the queue, so that other processes
	// can serve it. Defaults to 1.5 s.
	Hold time.Duration
	// Early is how long before its slot a held wake-up is asked for; the store grants a slot that close for its own moment.
	// Defaults to 5 ms.
	Early time.Duration
	// Stale is how late after its moment a grant is given back instead of used: windows may have moved on. The moment is
	// taken to be as early as it can have been, counted from when it was asked for. After a late grant of a partition the
	// next one to be asked for may be twice as late, until one is in time. Defaults to 250 ms.
	Stale time.Duration
	// SendTimeout bounds one delivery, and before it the claim. Defaults to 10 s.
	SendTimeout time.Duration
	// SettleTimeout bounds the writing of a result, with its retries: what is given up may be delivered again. While it is
	// tried, the delivery counts as in flight, and keeps its room. Defaults to 30 s.
	SettleTimeout time.Duration
	// Farewell is how long after Stop wake-ups are tried to be given back, and results to be written. Defaults to 10 s.
	Farewell time.Duration
	// DrainTimeout is how long Stop waits for deliveries in flight. Defaults to 20 s.
	DrainTimeout time.Duration
	// Retry gives the current retry policy.
	Retry func() RetryPolicy
	// MaxDefer tells how long a notification of a category may wait for its slot, and for a provider that only asks it to slow
	// down. Defaults to no bound.
	MaxDefer func(category string) time.Duration
	// ChannelRests tells how long what belongs to a channel has to stay away because operators paused it; 0 when it does not
	// rest. Defaults to never.
	ChannelRests func(channel notification.Channel) time.Duration
	// Trace is told of each grant, when it was asked for and answered, once it is claimed; it gives the context to deliver
	// under and what is to be called with the outcome. Defaults to no tracing.
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
	c.Partitions = max(c.Partitions, 1)
	c.Concurrency = cmp.Or(c.Concurrency, 256)
	c.Held = cmp.Or(c.Held, 4096)
	c.Hold = cmp.Or(c.Hold, 1500*time.Millisecond)
	c.Early = cmp.Or(c.Early, 5*time.Millisecond)
	c.Stale = cmp.Or(c.Stale, 250*time.Millisecond)
	c.SendTimeout = cmp.Or(c.SendTimeout, 10*time.Second)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, 30*time.Second)
	c.Farewell = cmp.Or(c.Farewell, 10*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 20*time.Second)
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

// Dispatcher serves the partitions and makes the deliveries.
type Dispatcher struct {
	cfg     Config
	store   Store
	queue   Queue
	senders push.Registry

	patience patience
	room     room
	turns    turns
	inFlight atomic.Int64
	nonce    string
	rounds   atomic.Uint64

	stopped, ending context.Context //nolint:containedctx // they end with Stop, and the farewell after it
	stop, end       context.CancelFunc
	stopping        <-chan struct{}
	once            sync.Once

	loops, chores, deliveries sync.WaitGroup
}

// New makes a Dispatcher.
func New(cfg Config, store Store, queue Queue, senders push.Registry) *Dispatcher {
	cfg = cfg.withDefaults()
	d := &Dispatcher{
		cfg: cfg, store: store, queue: queue, senders: senders,
		patience: patience{limit: cfg.Stale}, room: make(room, cfg.Concurrency),
		turns: make(turns, roundsAtOnce), nonce: rand.Text()[:12],
	}
	d.stopped, d.stop = context.WithCancel(context.Background())
	d.ending, d.end = context.WithCancel(context.Background())
	d.stopping = d.stopped.Done()
	return d
}

// Start begins to serve all partitions. A Dispatcher starts once.
func (d *Dispatcher) Start() {
	for number := range d.cfg.Partitions {
		d.loops.Go(newLoop(d, number).run)
	}
}

// Stop pulls and asks no more, gives back the wake-ups in hand, and waits for deliveries in flight, which go on. It gives up
// waiting when the drain's time is over. Stopping twice is stopping once.
func (d *Dispatcher) Stop() {
	d.once.Do(func() {
		drain := time.NewTimer(d.cfg.DrainTimeout)
		defer drain.Stop()
		d.stop()
		farewell := time.AfterFunc(d.cfg.Farewell, d.end)
		d.loops.Wait()
		farewell.Stop()
		d.end()
		d.chores.Wait()
		done := make(chan struct{})
		go func() { defer close(done); d.deliveries.Wait() }()
		select {
		case <-done:
		case <-drain.C:
			d.cfg.Log.Warn("stopped while deliveries were in flight; they may be made again", "in_flight", d.InFlight())
		}
	})
}

// InFlight is how many deliveries are being made.
func (d *Dispatcher) InFlight() int { return int(d.inFlight.Load()) }

// roundID names a round as no other of any process is named. The numbers tell which came first.
func (d *Dispatcher) roundID() string { return d.nonce + "." + strconv.FormatUint(d.rounds.Add(1), 10) }

type nobody struct{}

func (nobody) Pulled(int)                   {}
func (nobody) Decided(time.Duration)        {}
func (nobody) Deferred(string, string, int) {}
func (nobody) Sent(*notification.Notification, time.Duration, time.Duration, time.Duration, *push.Error) {
}
