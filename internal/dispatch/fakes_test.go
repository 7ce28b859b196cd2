package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

var errAway = errors.New("the record is away")

// tick is the one that most tests pull.
var tick = dispatch.Tick{ID: "n-1", Mailbox: dispatch.Mailbox{Lane: 3, UserID: "u-1", Category: "chat"}}

// record answers as its functions say and remembers what it was asked and told.
type record struct {
	take   func(ctx context.Context, q dispatch.Question) (dispatch.Answer, error)
	settle func(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error)

	mu       sync.Mutex
	asked    []question
	outcomes []dispatch.Outcome
	extend   func(ctx context.Context) error
	extended []time.Time
}

// question is one that the record was asked, and when.
type question struct {
	dispatch.Question
	At time.Time
}

func (r *record) Take(ctx context.Context, q dispatch.Question) (dispatch.Answer, error) {
	r.mu.Lock()
	r.asked = append(r.asked, question{q, time.Now()})
	r.mu.Unlock()
	return r.take(ctx, q)
}

func (r *record) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	r.mu.Lock()
	r.outcomes = append(r.outcomes, o)
	r.mu.Unlock()
	if r.settle == nil {
		return dispatch.Settlement{}, nil
	}
	return r.settle(ctx, g, o)
}

func (r *record) Extend(ctx context.Context, _ *dispatch.Grant) error {
	r.mu.Lock()
	r.extended = append(r.extended, time.Now())
	r.mu.Unlock()
	if r.extend == nil {
		return nil
	}
	return r.extend(ctx)
}

// extensions are the moments at which a lease was extended.
func (r *record) extensions() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.extended)
}

func (r *record) questions() []question {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]question(nil), r.asked...)
}

func (r *record) settled() []dispatch.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]dispatch.Outcome(nil), r.outcomes...)
}

// answers makes a take function that gives these answers one after another, and an error when there are no more.
func answers(all ...dispatch.Answer) func(context.Context, dispatch.Question) (dispatch.Answer, error) {
	var mu sync.Mutex
	return func(context.Context, dispatch.Question) (dispatch.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(all) == 0 {
			return dispatch.Answer{}, errors.New("asked more often than there are answers")
		}
		answer := all[0]
		all = all[1:]
		return answer, nil
	}
}

// always makes a take function that gives the answer each time.
func always(a func() dispatch.Answer) func(context.Context, dispatch.Question) (dispatch.Answer, error) {
	return func(context.Context, dispatch.Question) (dispatch.Answer, error) { return a(), nil }
}

// granted is an answer that lets a notification run.
func granted() dispatch.Answer {
	return dispatch.Answer{Grant: &dispatch.Grant{
		Mailbox: tick.Mailbox, Tick: tick, Generation: 1, Attempt: 1, AdmittedAt: time.Now(),
		Notification: &notification.Notification{
			ID: "n-1", UserID: "u-1", Category: "chat", Channel: notification.ChannelLog, CreatedAt: time.Now(),
		},
	}}
}

// wait is an answer that makes the tick wait for a rule.
func wait(d time.Duration) dispatch.Answer {
	return dispatch.Answer{Wait: &dispatch.Wait{For: d, Rule: "1 per 1s"}}
}

// sender sends as its function says.
type sender func(ctx context.Context, m push.Message) error

func (s sender) Send(ctx context.Context, m push.Message) error { return s(ctx, m) }
func (sender) CheckTarget(string) error                         { return nil }
func (sender) CheckContent(*notification.Notification) error    { return nil }

func sends(context.Context, push.Message) error { return nil }

// lines is a queue that remembers what was put into it.
type lines struct {
	enqueue func() error

	mu  sync.Mutex
	put []dispatch.Alarm
}

func (l *lines) Enqueue(_ context.Context, alarms ...dispatch.Alarm) error {
	l.mu.Lock()
	l.put = append(l.put, alarms...)
	l.mu.Unlock()
	if l.enqueue == nil {
		return nil
	}
	return l.enqueue()
}

// journal is an observer that remembers what it was told.
type journal struct {
	mu       sync.Mutex
	Pulls    int
	Took     []time.Duration
	Deferral []string
	Sends    []sent
}

type sent struct {
	ID                           string
	Provider, Lateness, EndToEnd time.Duration
	Class                        string
}

func (j *journal) Pulled() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Pulls++
}

func (j *journal) Decided(took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Took = append(j.Took, took)
}

func (j *journal) Deferred(category, rule string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Deferral = append(j.Deferral, category+": "+rule)
}

func (j *journal) Sent(n *notification.Notification, provider, lateness, endToEnd time.Duration, err *push.Error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	class := "delivered"
	if err != nil {
		class = err.Class.String()
	}
	j.Sends = append(j.Sends, sent{n.ID, provider, lateness, endToEnd, class})
}

// ledger is a log that tests read.
type ledger struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *ledger) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// Lines are what was logged, without times; nil when nothing was.
func (l *ledger) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for line := range strings.Lines(l.text.String()) {
		all = append(all, strings.TrimSuffix(line, "\n"))
	}
	return all
}

func (l *ledger) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// patience of the retries in tests.
func retries() dispatch.RetryPolicy {
	return dispatch.RetryPolicy{MaxAttempts: 3, Backoff: func(failures int) time.Duration { return time.Duration(failures) * time.Second }}
}

// bench is a dispatcher with everything around it.
type bench struct {
	*dispatch.Dispatcher
	record  *record
	queue   *lines
	journal *journal
	ledger  *ledger
}

// newBench makes a dispatcher that takes as told and sends on the log channel as told.
func newBench(cfg dispatch.Config, r *record, send sender) *bench {
	b := &bench{record: r, queue: &lines{}, journal: &journal{}, ledger: &ledger{}}
	cfg.Retry, cfg.Observer, cfg.Log = retries, b.journal, b.ledger.logger(slog.LevelInfo)
	b.Dispatcher = dispatch.New(cfg, r, b.queue, push.Registry{notification.ChannelLog: send})
	return b
}

// start handles a tick in a goroutine of its own.
func (b *bench) start(ctx context.Context, t dispatch.Tick) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.Handle(ctx, t) }()
	return done
}

// pass lets that much time pass in the bubble: the latency of something, or the patience of somebody.
func pass(d time.Duration) { <-time.After(d) }

// wantDeferral fails the test unless err defers until that moment.
func wantDeferral(t *testing.T, err error, until time.Time) {
	t.Helper()
	deferral, ok := errors.AsType[*dispatch.DeferralError](err)
	if !ok {
		t.Fatalf("Handle gives %v, want a deferral", err)
	}
	if !deferral.Until.Equal(until) {
		t.Errorf("deferred for %s, want %s", time.Until(deferral.Until), time.Until(until))
	}
}

// wantClock fails the test unless that much has passed since start.
func wantClock(t *testing.T, what string, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Errorf("%s after %s, want %s", what, got, want)
	}
}

// finished fails the test unless the tick is handled already.
func finished(t *testing.T, done <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		return err
	default:
		t.Fatal("the tick is still being handled")
		return nil
	}
}

// unfinished fails the test when the tick is handled already.
func unfinished(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("the tick has been handled (%v), want it still at work", err)
	default:
	}
}
