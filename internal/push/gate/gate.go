// Package gate stands between the dispatcher and a channel's sender. It has a budget that all processes share, and for
// each host a limit of calls in flight and a circuit breaker. So a dead provider does not take capacity from the
// others, and is not hammered. A notification that may not pass waits; that is a deferral and costs no attempt.
package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// The codes with which the gate returns deliveries unsent. They show as the reasons of deferrals.
const (
	CodeBudget      = "provider_budget"
	CodeTarget      = "target_budget"
	CodeBusy        = "provider_busy"
	CodeOpen        = "breaker_open"
	CodePaused      = "channel_paused"
	CodeUnreachable = "budget_unknown"
)

// Config of a Gate.
type Config struct {
	Channel notification.Channel
	// Host reports which of the channel's hosts a target is on. Defaults to one host for all.
	Host func(to string) string
	// InFlight is how many calls may be under way per host. Defaults to 128.
	InFlight int
	// Budget is what all calls of the channel together may use, over all processes; BudgetKey names the credential that
	// it belongs to. Defaults to no limit.
	Budget    []throttle.Rule
	BudgetKey string
	// PerTarget is what the calls to one target may use. Defaults to no limit.
	PerTarget []throttle.Rule
	// Limiter holds the budgets. It also decides which process may try a host whose breaker is open.
	Limiter throttle.Limiter
	// EndsAt reports whether a notification of a category ends as failed at a status that would be tried again.
	// Defaults to never.
	EndsAt func(category string, channel notification.Channel, status int) bool
	// MinGap is the shortest time between two notifications of a user's category; 0 for none. Limits do not keep it
	// after a call that reached nobody, so the gate does, for the target. Defaults to none.
	MinGap func(n *notification.Notification) time.Duration
	// Pause is how long a host is not called after it refused the credentials, or throttled everybody without saying
	// for how long. A notification of which nobody knows whether it or the settings are wrong waits as long.
	// Defaults to a minute.
	Pause time.Duration
	Log   *slog.Logger
}

// Gate is a channel's sender behind its limits.
type Gate struct {
	push.Sender
	cfg   Config
	hosts *hosts
	slow  *slow
	// ofTargets is true when targets name the hosts.
	ofTargets bool
	// budgetKey is the one of the credential in force, spent the budget that is used up.
	budgetKey atomic.Pointer[string]
	spent     atomic.Pointer[spentBudget]
}

// New puts a gate before a sender.
func New(sender push.Sender, cfg Config) *Gate {
	ofTargets := cfg.Host != nil
	if !ofTargets {
		cfg.Host = func(string) string { return "" }
	}
	cfg.InFlight = cmp.Or(cfg.InFlight, 128)
	cfg.Pause = cmp.Or(cfg.Pause, time.Minute)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	g := &Gate{Sender: sender, cfg: cfg, hosts: newHosts(cfg), slow: newSlow(), ofTargets: ofTargets}
	g.budgetKey.Store(&cfg.BudgetKey)
	return g
}

// Renew tells the gate that the sender has another credential. What was refused with the one before says nothing of it:
// no host stays paused because of that. It reports whether one was.
func (g *Gate) Renew(budgetKey string) (resumed bool) {
	g.budgetKey.Store(&budgetKey)
	for _, h := range g.hosts.list() {
		if h.renew() {
			resumed = true
			g.cfg.Log.Info("the channel's credentials have changed; the provider is called again",
				"channel", g.cfg.Channel, "host", h.name)
		}
	}
	return resumed
}

// Send implements [push.Sender].
func (g *Gate) Send(ctx context.Context, m push.Message) error {
	if over := push.OutOfTime(ctx); over != nil {
		return over
	}
	h := g.hosts.of(g.cfg.Host(m.To))
	wait, trial := h.pausedFor(time.Now())
	if wait > 0 {
		return later(CodePaused, wait)
	}
	outcome := notCalled
	if trial {
		defer func() { h.tried(outcome) }()
	}
	state := h.breaker.State()
	if state == gobreaker.StateOpen {
		return later(CodeOpen, h.openWait())
	}
	if wait = g.leftAlone(m); wait > 0 {
		if state == gobreaker.StateHalfOpen { // which says more
			return later(CodeOpen, max(wait, h.openWait()))
		}
		return later(CodeTarget, wait)
	}
	leave, wait := h.enter(ctx, m.Deadline)
	if leave == nil {
		return later(CodeBusy, wait)
	}
	defer func() { leave(outcome) }()
	report, refusal := g.pass(ctx, h, m)
	if refusal != nil {
		return refusal
	}
	outcome = failed // if the sender panics, too
	defer func() { report(outcome.err()) }()
	var failure *push.Error
	if outcome, failure = g.call(ctx, h, m); failure == nil {
		return nil
	}
	return failure
}

// pass has a call pass the host's breaker and the budgets. What a call that may not be made took of them is taken back.
func (g *Gate) pass(ctx context.Context, h *host, m push.Message) (report func(error), refusal *push.Error) {
	if !g.mayTry(ctx, h) {
		return nil, later(CodeOpen, h.openWait())
	}
	takeBack, refusal := g.spend(ctx, m)
	if refusal != nil {
		return nil, refusal
	}
	if refusal = begin(ctx, m.Deadline); refusal != nil { // the limiter may have taken any time
		takeBack()
		return nil, refusal
	}
	report, err := h.breaker.Allow()
	if err != nil {
		takeBack()
		return nil, later(CodeOpen, h.openWait())
	}
	return report, nil
}

// begin returns why a call may not begin any more.
func begin(ctx context.Context, deadline *push.Deadline) *push.Error {
	if over := push.OutOfTime(ctx); over != nil {
		return over
	}
	if !deadline.Begin() {
		return push.Late()
	}
	return nil
}

// call makes the call, and applies what its outcome means for those that follow.
func (g *Gate) call(ctx context.Context, h *host, m push.Message) (outcome, *push.Error) {
	began := time.Now()
	deadline, bounded := ctx.Deadline()
	ctx, dripped := push.WatchDrip(ctx)
	failure := g.end(m.Category, push.Classify(g.Sender.Send(ctx, m)))
	result := outcomeOf(failure)
	slow := bounded && time.Since(began) > deadline.Sub(began)/slowShare
	if result == responded && (slow || dripped()) {
		result = dripping
	}
	if h.outdated(began, failure) {
		return result, later(CodePaused, 0)
	}
	failure = g.weigh(h, m.To, failure)
	g.slow.note(m.To, failure)
	g.keepGap(m, began, failure)
	h.note(describe(failure), result == failed)
	g.heed(h, began, result, failure)
	return result, failure
}

// slowShare divides the time that a call may take: a response that takes longer earns its host as little as one that
// drips. Else hosts that take long for each response would get as many places as quick ones, and hold them.
const slowShare = 4

// end makes a failure permanent that the policy says is.
func (g *Gate) end(category string, failure *push.Error) *push.Error {
	if g.cfg.EndsAt == nil || failure == nil || failure.Class != push.Transient && failure.Class != push.Ambiguous {
		return failure
	}
	status, err := strconv.Atoi(failure.Code)
	if err != nil || !g.cfg.EndsAt(category, g.cfg.Channel, status) {
		return failure
	}
	ended := *failure
	ended.Class, ended.Reached = push.Permanent, failure.Counts()
	return &ended
}

// busyWait is the shortest wait of a delivery whose host has as many calls in flight as it may.
const busyWait = 500 * time.Millisecond

// mayTry reports whether the breaker lets a call to the host pass. While the breaker is half-open, one process may call
// the host once a second, to see whether it is back.
func (g *Gate) mayTry(ctx context.Context, h *host) bool {
	switch h.breaker.State() {
	case gobreaker.StateOpen:
		return false
	case gobreaker.StateHalfOpen:
		once := throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: probeEvery}}}
		may, err := g.cfg.Limiter.Allow(ctx, g.key("probe:"+h.name), once, token())
		return err == nil && may.Allowed
	case gobreaker.StateClosed:
	}
	return true
}

func (g *Gate) key(name string) throttle.Key {
	return throttle.Key{User: name, Category: string(g.cfg.Channel)}
}

// describe puts the outcome of a call into words.
func describe(failure *push.Error) string {
	if failure == nil {
		return notification.OutcomeDelivered
	}
	return failure.Class.String() + ": " + failure.Code
}

// maxSpread is how far waits are spread at most: a provider that named a time is called again soon after it.
const maxSpread = 10 * time.Second

// later returns a delivery unsent. The waits are spread, so that deliveries that wait for the same thing do not all
// come back at once.
func later(code string, wait time.Duration) *push.Error {
	spread := min(wait/2, maxSpread) + 10*time.Millisecond
	wait += time.Duration(rand.Int64N(int64(spread))) //nolint:gosec // spread, no secret
	return &push.Error{Class: push.Throttled, Code: code, RetryAfter: wait, Unsent: true}
}

// token names one admission. No admission is repeated.
func token() string { return strconv.FormatUint(rand.Uint64(), 36) } //nolint:gosec // unlike the others, no secret

// digest stands for a target, which may be long and is private.
func digest(target string) string {
	sum := sha256.Sum256([]byte(target))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// States lists hosts that were called, now or recently, by name: those in trouble, and those that were called last.
func (g *Gate) States() []push.Host { return g.hosts.states() }

// Open counts the hosts that are not called because they failed.
func (g *Gate) Open() int { return g.hosts.open() }
