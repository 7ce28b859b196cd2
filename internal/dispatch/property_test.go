package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// turn is what the record answers to one question of a tick, and what happens then.
type turn struct {
	answer  string // grant, wait, nothing, error or panic
	latency time.Duration
	wait    time.Duration
	rule    string
	extra   bool

	sends    string // delivered, transient, panic, hangs
	provider time.Duration
	settles  string // settled, retry, stale, hangs, after some failures
	failures int
}

func duration(t *rapid.T, name string, most time.Duration) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, 1, most / 1000, most / 10, most / 2, most}).Draw(t, name)
}

var turns = rapid.Custom(func(t *rapid.T) turn {
	return turn{
		answer:   rapid.SampledFrom([]string{"grant", "grant", "grant", "wait", "wait", "nothing", "error", "panic"}).Draw(t, "answer"),
		latency:  duration(t, "latency", 100*time.Millisecond),
		wait:     duration(t, "wait", 2*time.Second) - duration(t, "less", 10*time.Millisecond),
		rule:     rapid.SampledFrom([]string{"", "1 per 1s"}).Draw(t, "rule"),
		extra:    rapid.Bool().Draw(t, "extra"),
		sends:    rapid.SampledFrom([]string{"delivered", "delivered", "transient", "panic", "hangs"}).Draw(t, "sends"),
		provider: duration(t, "provider", 3*time.Second),
		settles:  rapid.SampledFrom([]string{"settled", "settled", "retry", "stale", "hangs"}).Draw(t, "settles"),
		failures: rapid.IntRange(0, 3).Draw(t, "failures"),
	}
})

// play is a dispatcher whose ticks follow scripts, with what has been seen of it.
type play struct {
	*dispatch.Dispatcher
	inside  gauge
	mu      sync.Mutex
	scripts map[string][]turn // by tick, what is still to come
	granted map[*dispatch.Grant]turn
	settled map[*dispatch.Grant]dispatch.Fate
	sent    map[*dispatch.Grant]int
	early   time.Duration // how much before its moment something was sent
	asked   []time.Time   // per question
}

func (p *play) Take(_ context.Context, q dispatch.Question) (dispatch.Answer, error) {
	p.mu.Lock()
	p.asked = append(p.asked, time.Now())
	next := turn{answer: "nothing"}
	if script := p.scripts[q.ID]; len(script) > 0 {
		next, p.scripts[q.ID] = script[0], script[1:]
	}
	p.mu.Unlock()
	pass(next.latency)
	answer := dispatch.Answer{}
	if next.extra {
		answer.Extra = &dispatch.Alarm{Tick: q.Tick}
	}
	switch next.answer {
	case "panic":
		panic("a bad reply")
	case "error":
		return dispatch.Answer{}, errAway
	case "wait":
		answer.Wait = &dispatch.Wait{For: next.wait, Rule: next.rule}
	case "grant":
		answer.Grant = granted().Grant
		answer.Grant.Tick, answer.Grant.StartIn = q.Tick, min(next.wait, 10*time.Millisecond)
		answer.Grant.AdmittedAt = time.Now().Add(answer.Grant.StartIn)
		// The sender is only given the message: it finds its script by the notification.
		p.mu.Lock()
		p.granted[answer.Grant] = next
		p.mu.Unlock()
	}
	return answer, nil
}

func (p *play) Enqueue(context.Context, ...dispatch.Alarm) error {
	pass(200 * time.Millisecond) // some grants are late after this
	return errAway
}

func (p *play) CheckTarget(string) error { return nil }

func (p *play) CheckContent(*notification.Notification) error { return nil }

func (p *play) Send(ctx context.Context, m push.Message) error {
	p.inside.enter()
	defer p.inside.leave()
	p.mu.Lock()
	var next turn
	for g, t := range p.granted {
		if g.Notification == m.Notification {
			next = t
			p.sent[g]++
		}
	}
	p.early = max(p.early, time.Until(m.AdmittedAt))
	p.mu.Unlock()
	pass(next.provider)
	switch next.sends {
	case "panic":
		panic("a fault of the sender")
	case "transient":
		return &push.Error{Class: push.Transient, Code: "503"}
	case "hangs":
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (p *play) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	p.mu.Lock()
	next := p.granted[g]
	next.failures--
	p.granted[g] = next
	p.settled[g] = o.Fate
	p.mu.Unlock()
	pass(next.latency)
	switch {
	case next.settles == "hangs":
		<-ctx.Done()
		return dispatch.Settlement{}, ctx.Err()
	case next.failures >= 0:
		return dispatch.Settlement{}, errAway
	case next.settles == "stale":
		return dispatch.Settlement{Stale: true}, nil
	case next.settles == "retry":
		return dispatch.Settlement{RetryIn: time.Second}, nil
	}
	return dispatch.Settlement{}, nil
}

func (*play) Extend(context.Context, *dispatch.Grant) error { return errAway }

// Whatever record, queue and senders do, and whenever it is stopped: the dispatcher gives all room back, never makes more
// deliveries at once than it may, none before its moment, each at most once, and settles each exactly as far as it went.
// That no goroutine is left over is what the bubble checks.
func TestRandomScripts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(draw *rapid.T) {
		concurrency := rapid.IntRange(1, 3).Draw(draw, "concurrency")
		scripts := rapid.SliceOfN(rapid.SliceOfN(turns, 0, 5), 1, 6).Draw(draw, "scripts")
		stop := duration(draw, "stop", 10*time.Second) - 1 // negative: never
		var faults []string
		synctest.Test(t, func(*testing.T) {
			p := &play{
				inside: newGauge(), scripts: map[string][]turn{}, granted: map[*dispatch.Grant]turn{},
				settled: map[*dispatch.Grant]dispatch.Fate{}, sent: map[*dispatch.Grant]int{},
			}
			p.Dispatcher = dispatch.New(dispatch.Config{Concurrency: concurrency, Retry: retries, Log: slog.New(slog.DiscardHandler)},
				p, p, push.Registry{notification.ChannelLog: p})
			stopped := p.perform(scripts, stop)
			faults = p.faults(concurrency, stopped)
		})
		for _, fault := range faults { // rapid's own failures must not be raised in the bubble
			draw.Error(fault)
		}
	})
}

// perform lets all ticks play their scripts at once, each pulled again as long as it has to come again, like a queue
// would. It gives the moment at which the dispatcher was stopped.
func (p *play) perform(scripts [][]turn, stop time.Duration) (stopped time.Time) {
	over := make(chan struct{})
	var ticks, stopper sync.WaitGroup
	if stop >= 0 {
		stopper.Go(func() {
			select {
			case <-time.After(stop):
				stopped = time.Now()
				p.Stop()
			case <-over:
			}
		})
	}
	for i, script := range scripts {
		t := dispatch.Tick{ID: strconv.Itoa(i), Mailbox: tick.Mailbox}
		p.mu.Lock()
		p.scripts[t.ID] = script
		p.mu.Unlock()
		ticks.Go(func() {
			for range len(script) + 1 {
				if err := p.survive(t); err == nil {
					return
				}
			}
		})
	}
	ticks.Wait()
	close(over)
	stopper.Wait()
	return stopped
}

// survive handles the tick as asynq does: a panic is an error.
func (p *play) survive(t dispatch.Tick) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("panic")
		}
	}()
	return p.Handle(context.Background(), t)
}

// faults tells what went against the promises.
func (p *play) faults(concurrency int, stopped time.Time) (all []string) {
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if p.RoomTaken() != 0 || p.InFlight() != 0 {
		fault("room taken: %d, in flight: %d; want none", p.RoomTaken(), p.InFlight())
	}
	if peak := p.inside.peak(); peak > concurrency {
		fault("%d deliveries at once, want at most %d", peak, concurrency)
	}
	if p.early > 0 {
		fault("something was sent %s before its moment", p.early)
	}
	for g := range p.granted {
		fate, settled := p.settled[g]
		switch {
		case !settled:
			fault("a grant of tick %s was not settled", g.Tick.ID)
		case fate == dispatch.Returned && p.sent[g] != 0, fate != dispatch.Returned && p.sent[g] != 1:
			fault("a grant of tick %s was sent %d times and settled with fate %d", g.Tick.ID, p.sent[g], fate)
		}
	}
	for _, at := range p.asked {
		if !stopped.IsZero() && at.After(stopped) {
			fault("the record was asked %s after the stop", at.Sub(stopped))
		}
	}
	return all
}
