package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// early is how long before a slot the store is asked.
const early = 38 * time.Millisecond

var errAway = errors.New("the store is away")

// turn is what a user's wake-up gets when it is asked for.
type turn struct {
	dispatch.WakeupResult
	// back says that it has gone back to the queue.
	back bool
}

// store is a queue and a store in one. A user's wake-up gets what the user's script says, one turn after the other,
// and is used up at its end. A request that is repeated has the same result.
type store struct {
	// before and after, which may be nil, are called before a round is made and before its result is returned.
	before, after func(ctx context.Context, r dispatch.TakeRequest) error
	claim         func(ctx context.Context, g *dispatch.Grant) (bool, error)
	settle        func(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error)
	extend        func(ctx context.Context) error
	archive       func(t dispatch.Task) error

	mu         sync.Mutex
	scripts    map[string]func(r dispatch.TakeRequest) (turn, bool)
	partitions map[int]*partition
	generation int64
	// servesAtOnce makes a round serve what it pulls, as far as it has tokens; else the next round does.
	servesAtOnce bool
	rounds       []asked
	outcomes     []dispatch.Outcome
	extended     []time.Time
	archived     []dispatch.Task
	released     []string
}

// partition is one partition.
type partition struct {
	pending []string
	signal  chan struct{}
	foreign []dispatch.Task
	lastID  string
	last    dispatch.TakeResult
}

// asked is a round that was asked, and when.
type asked struct {
	dispatch.TakeRequest
	At time.Time
}

func newStore() *store {
	return &store{scripts: map[string]func(dispatch.TakeRequest) (turn, bool){}, partitions: map[int]*partition{}}
}

func (s *store) partition(number int) *partition {
	if s.partitions[number] == nil {
		s.partitions[number] = &partition{signal: make(chan struct{}, 1)}
	}
	return s.partitions[number]
}

func (s *store) push(number int, user string) {
	l := s.partition(number)
	l.pending = append(l.pending, user)
	l.tell()
}

// pushBack is push, which somebody sees only when looking again.
func (s *store) pushBack(number int, user string) {
	l := s.partition(number)
	l.pending = append(l.pending, user)
	time.AfterFunc(20*time.Millisecond, l.tell)
}

func (p *partition) tell() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// wake puts a user's wake-up into the queue of partition 0, with the turns that it gets.
func (s *store) wake(user string, turns ...turn) { s.wakeIn(0, user, turns...) }

func (s *store) wakeIn(number int, user string, turns ...turn) {
	s.perform(number, user, func(dispatch.TakeRequest) (turn, bool) {
		if len(turns) == 0 {
			return turn{}, false
		}
		first := turns[0]
		turns = turns[1:]
		return first, true
	})
}

// perform is wake, with a function that gives the turns.
func (s *store) perform(number int, user string, script func(dispatch.TakeRequest) (turn, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[user] = script
	s.push(number, user)
}

// Pending implements dispatch.Queue.
func (s *store) Pending(number int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partition(number).signal
}

// Archive implements dispatch.Queue.
func (s *store) Archive(_ context.Context, _ int, t dispatch.Task, _ error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archived = append(s.archived, t)
	if s.archive != nil {
		return s.archive(t)
	}
	return nil
}

// Take implements dispatch.Store.
func (s *store) Take(ctx context.Context, r dispatch.TakeRequest) (dispatch.TakeResult, error) {
	s.mu.Lock()
	s.rounds = append(s.rounds, asked{r, time.Now()})
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(ctx, r); err != nil {
			return dispatch.TakeResult{}, err
		}
	}
	reply := s.result(r)
	if s.after != nil {
		if err := s.after(ctx, r); err != nil {
			return dispatch.TakeResult{}, err
		}
	}
	return reply, nil
}

func (s *store) result(r dispatch.TakeRequest) dispatch.TakeResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.partition(r.Partition)
	if l.lastID == r.ID {
		return l.last
	}
	reply := dispatch.TakeResult{Foreign: l.foreign}
	l.foreign = nil
	for _, w := range r.Release {
		s.released = append(s.released, w.UserID)
		s.push(r.Partition, w.UserID)
	}
	for _, w := range r.Wakeups {
		next, _ := s.scripts[w.UserID](r)
		r.Capacity -= len(next.Grants)
		reply.Results = append(reply.Results, next.WakeupResult)
		if next.back {
			s.pushBack(r.Partition, w.UserID)
		}
	}
	for range min(r.Pull, len(l.pending)) {
		s.generation++
		w := dispatch.Wakeup{UserID: l.pending[0], Generation: s.generation, Categories: []string{"chat"}}
		reply.PulledCount++
		l.pending = l.pending[1:]
		if !s.servesAtOnce || r.Capacity == 0 {
			reply.Pulled = append(reply.Pulled, w)
			continue
		}
		next, _ := s.scripts[w.UserID](r)
		r.Capacity -= len(next.Grants)
		reply.Served = append(reply.Served, dispatch.ServedWakeup{Wakeup: w, WakeupResult: next.WakeupResult})
		if next.back {
			s.pushBack(r.Partition, w.UserID)
		}
	}
	l.lastID, l.last = r.ID, reply
	return reply
}

// Claim implements dispatch.Store.
func (s *store) Claim(ctx context.Context, g *dispatch.Grant) (bool, error) {
	if s.claim == nil {
		return true, nil
	}
	return s.claim(ctx, g)
}

// Settle implements dispatch.Store.
func (s *store) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	s.mu.Lock()
	s.outcomes = append(s.outcomes, o)
	s.mu.Unlock()
	if s.settle == nil {
		return dispatch.Settlement{}, nil
	}
	return s.settle(ctx, g, o)
}

// Extend implements dispatch.Store.
func (s *store) Extend(ctx context.Context, _ *dispatch.Grant) error {
	s.mu.Lock()
	s.extended = append(s.extended, time.Now())
	s.mu.Unlock()
	if s.extend == nil {
		return nil
	}
	return s.extend(ctx)
}

// asks are the rounds that were asked.
func (s *store) asks() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rounds)
}

func (s *store) settled() []dispatch.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.outcomes)
}

// extensions are the moments at which a lease was extended.
func (s *store) extensions() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.extended)
}

// givenBack are the users whose wake-ups were released.
func (s *store) givenBack() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.released)
}

// granted is a grant for now.
func granted() *dispatch.Grant {
	return &dispatch.Grant{
		Backlog: dispatch.Backlog{UserID: "u-1", Category: "chat"}, Generation: 1, Attempt: 1, AdmittedAt: time.Now(),
		Notification: &notification.Notification{
			ID: "n-1", UserID: "u-1", Category: "chat", Channel: notification.ChannelLog, CreatedAt: time.Now(),
		},
	}
}

// grant is a turn that grants deliveries.
func grant(all ...*dispatch.Grant) turn {
	return turn{WakeupResult: dispatch.WakeupResult{Grants: all}}
}

// hold is a turn that has the wake-up wait for a rule.
func hold(d time.Duration) turn {
	return turn{
		WakeupResult: dispatch.WakeupResult{Held: true, After: d, Rule: "1 per 1s", Categories: []string{"chat"}},
	}
}

// sender sends as its function says.
type sender func(ctx context.Context, m push.Message) error

func (s sender) Send(ctx context.Context, m push.Message) error { return s(ctx, m) }
func (sender) CheckTarget(string) error                         { return nil }
func (sender) CheckContent(*notification.Notification) error    { return nil }

func sends(context.Context, push.Message) error { return nil }

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

func (j *journal) Pulled(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Pulls += n
}

func (j *journal) Decided(took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Took = append(j.Took, took)
}

func (j *journal) Deferred(category, rule string, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Deferral = append(j.Deferral, fmt.Sprintf("%s: %s, %d", category, rule, n))
}

func (j *journal) Ended(notification.Status, string) {}

func (j *journal) Sent(n *notification.Notification, provider, lateness, endToEnd time.Duration, err *push.Error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	class := "delivered"
	if err != nil {
		class = err.Class.String()
	}
	j.Sends = append(j.Sends, sent{ID: n.ID, Provider: provider, Lateness: lateness, EndToEnd: endToEnd, Class: class})
}

func (j *journal) sends() []sent {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.Sends)
}

func (j *journal) pulls() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Pulls
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

// retries are the settings of deliveries in tests: three failures end a notification, and the wait after the n-th is n
// seconds.
func retries(string, notification.Channel) dispatch.Settings {
	steps := make([]time.Duration, 10)
	for i := range steps {
		steps[i] = time.Duration(i+1) * time.Second
	}
	return dispatch.Settings{DeliverySettings: notification.DeliverySettings{
		Retry: notification.Retry{MaxAttempts: 3, Schedule: steps},
	}}
}

// noSpread draws the middle.
func noSpread() float64 { return 0.5 }

// bench is a dispatcher with everything around it.
type bench struct {
	*dispatch.Dispatcher
	store   *store
	journal *journal
	ledger  *ledger
}

// newBench makes a dispatcher that sends on the log channel as told, and starts it. Who calls it stops it.
func newBench(cfg dispatch.Config, s *store, send sender) *bench {
	b := &bench{store: s, journal: &journal{}, ledger: &ledger{}}
	if cfg.Settings == nil {
		cfg.Settings = retries
	}
	cfg.Random, cfg.Observer = noSpread, b.journal
	if cfg.Log == nil {
		cfg.Log = b.ledger.logger(slog.LevelInfo)
	}
	b.Dispatcher = dispatch.New(cfg, s, s, push.Registry{notification.ChannelLog: send})
	b.Start()
	return b
}

// deliver lets a dispatcher of its own make the delivery of a grant, to its very end.
func deliver(cfg dispatch.Config, s *store, g *dispatch.Grant, send sender) *bench {
	s.wake(g.UserID, grant(g))
	b := newBench(cfg, s, send)
	b.await()
	b.Stop()
	return b
}

// await waits until all deliveries that can begin now have ended; none may begin meanwhile.
func (b *bench) await() {
	synctest.Wait()
	b.AwaitDeliveries()
}

// wantTokens fails the test unless that many are taken.
func (b *bench) wantTokens(t *testing.T, taken int) {
	t.Helper()
	synctest.Wait()
	if b.TokensTaken() != taken || b.InFlight() != taken {
		t.Errorf("tokens taken: %d, in flight: %d; want %d", b.TokensTaken(), b.InFlight(), taken)
	}
}

// pass lets that much time pass in the bubble: the latency of something, or the patience of somebody.
func pass(d time.Duration) { <-time.After(d) }

// wantClock fails the test unless that much has passed since start.
func wantClock(t *testing.T, what string, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Errorf("%s after %s, want %s", what, got, want)
	}
}
