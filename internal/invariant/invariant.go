// Package invariant is the invariant checker. Again and again it checks that no user got more than the limits allow, or
// anything in closed hours, and that every accepted notification has ended in time. It looks at what the store holds,
// not at what the limiter believes.
package invariant

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Admission is a delivery that the limiter admitted and that was made.
type Admission struct {
	ID, UserID, Category string
	// Channel is empty where the store no longer knows it.
	Channel  string
	At       throttle.Micros
	Priority notification.Priority
	// ExpiresAt is the notification's; zero without one.
	ExpiresAt time.Time
	// Version is that of the policy that the admission was decided under, Zone the user's time zone then. Both are
	// empty where the store does not know them.
	Version, Zone string
}

// Open is a notification that has not ended.
type Open struct {
	ID, UserID, Category, Channel string
	// Since is when it began to wait: when it was accepted, or its send_at.
	Since     time.Time
	ExpiresAt time.Time // zero without one
}

// Source is a store to be checked.
type Source interface {
	// Admissions calls do for the admissions until a moment of at least those users who have one after another moment:
	// user by user, of each the oldest first, and as far back before the latter as the user's window. However many
	// there are, it keeps few in memory, and so must do.
	Admissions(ctx context.Context, after, until throttle.Micros, window func(userID string) time.Duration,
		do func(Admission) error) error
	// EachOpen calls do for every notification that was accepted before a moment and has not ended, slowly. One that
	// changes meanwhile may come twice.
	EachOpen(ctx context.Context, before time.Time, do func(Open) error) error
}

// Limits are what must hold for a user in a category.
type Limits struct {
	Plan throttle.Plan
	// BypassFrom is the least urgent priority that is not limited; 0 when every priority is.
	BypassFrom notification.Priority
}

// Config of a Checker.
type Config struct {
	Source Source
	// Limits gives the limits in force.
	Limits func(userID, category string) Limits
	// MaxLife gives how long a notification may take from the moment that it may go out until it has ended.
	MaxLife func(o Open) time.Duration
	// Window gives the longest window of any rule for a user.
	Window func(userID string) time.Duration
	// Hours gives when nothing like an admission may be admitted. Defaults to never.
	Hours func(m Admission) Hours
	// Period gives the day, week or month that an admission was in, by the clock of its user. Without it, rules of the
	// calendar are not checked.
	Period func(m Admission, p throttle.Period) throttle.Interval
	// Version gives the version of the policy whose limits these are. Admissions under another one are not checked.
	Version func() string
	// Remembers reports whether the log that a rule counts in still had, when the limits came into force, all that was
	// admitted in a category under another version, as far back as the rule looks: a limiter forgets what no rule
	// needs. Defaults to always.
	Remembers func(version, category string, rule throttle.Rule) bool
	// InForce gives the moment since which the limits are in force. Earlier admissions of which the store does not know
	// the version are not checked.
	InForce func() time.Time
	// Cleared gives the users whose windows an operator has cleared since a moment, and when last: the store does not
	// know what the limiter was told to forget.
	Cleared func(ctx context.Context, since time.Time) (map[string]time.Time, error)
	// Paused reports whether operators have paused the channel, category or partition of a notification.
	Paused func(o Open) bool
	// Every is the time between two rounds. Defaults to a minute.
	Every time.Duration
	// Behind is how far behind now the checker stays, because an admission is written when its delivery has ended: that
	// takes a minute at most, and 30 s to write while the store is away. Defaults to 100 s.
	Behind time.Duration
	// Found is called after each round with the number of new findings.
	Found func(violations, unended int)
	Log   *slog.Logger
	// Now is the time. Defaults to [time.Now].
	Now func() time.Time
}

const (
	// settling is how long a change of limits may take to reach every process.
	settling = 15 * time.Second
	// grace is how much longer than its limits a notification may take.
	grace = 5 * time.Minute
	// named is how many findings of a round are logged, each with its name.
	named = 10
	// remembered is how many unended notifications the checker remembers, so that it counts each once, and of how many
	// users that their preferences have changed.
	remembered = 10_000
)

// Result is what the checker has found.
type Result struct {
	// At is when the latest round ended; zero before the first.
	At time.Time
	// Violations are admissions that some limit did not allow, Unended notifications that should have ended. Unchecked
	// are admissions of which nobody can tell afterwards what allowed them, or not all of it: a policy that is no
	// longer in force; limits, hours or a moment of quiet that the user had until the preferences changed, since stores
	// keep the latest only; windows that an operator cleared. All count since the process began, each once.
	Violations, Unended, Unchecked int64
}

// Checker checks a store, one round after another.
type Checker struct {
	cfg     Config
	checked throttle.Micros // every admission up to this moment is
	known   map[string]bool // unended notifications that were counted, by id

	mu     sync.Mutex
	result Result
	// exempt are the users whose preferences have changed, and when; those of everybody may have until exemptAll.
	exempt    map[string]time.Time
	exemptAll time.Time
}

// New makes a Checker that begins with the admissions from now on.
func New(cfg Config) *Checker {
	cfg.Every, cfg.Behind = cmp.Or(cfg.Every, time.Minute), cmp.Or(cfg.Behind, 100*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Checker{
		cfg: cfg, checked: throttle.MicrosOf(cfg.Now()), known: map[string]bool{},
		exempt: map[string]time.Time{},
	}
}

// Exempt says that a user's preferences have changed, so that nobody knows by what the user's admissions up to now were
// allowed. Only caps are checked for these, which no preference changes. It may be called on a nil Checker.
func (c *Checker) Exempt(userID string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Now()
	if len(c.exempt) >= remembered {
		clear(c.exempt)
		c.exemptAll = now
	}
	c.exempt[userID] = now
}

// wishesSince is the moment after which a user's admissions were allowed by the preferences of today. Every process has
// them by then.
func (c *Checker) wishesSince(userID string) throttle.Micros {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.exemptAll
	if at, ok := c.exempt[userID]; ok {
		changed = at
	}
	if changed.IsZero() {
		return 0
	}
	return throttle.MicrosOf(changed.Add(settling))
}

// forgetExempt forgets changes that are older than what is looked at of the admissions after a moment.
func (c *Checker) forgetExempt(after throttle.Micros) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.exempt, func(userID string, at time.Time) bool { return at.Before(c.since(userID, after)) })
}

// since is how far back the checker looks for a user's admissions after a moment, and for what decided them.
func (c *Checker) since(userID string, after throttle.Micros) time.Time {
	return after.Time().Add(-c.cfg.Window(userID) - settling)
}

// Latest returns what was found up to now.
func (c *Checker) Latest() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

// Run makes rounds until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.Round(ctx, c.cfg.Now()); err != nil && ctx.Err() == nil {
			c.cfg.Log.WarnContext(ctx,
				"the invariant checker could not read the store; it tries again in its next round",
				"error", err)
		}
	}
}

// Round checks what was admitted since the round before, and looks for notifications that should have ended.
func (c *Checker) Round(ctx context.Context, now time.Time) error {
	until := throttle.MicrosOf(now.Add(-c.cfg.Behind))
	violations, unchecked, err := c.violations(ctx, until)
	if err != nil {
		return err
	}
	unended, err := c.unended(ctx, now)
	if err != nil {
		return err
	}
	c.checked = max(c.checked, until)
	c.mu.Lock()
	c.result = Result{
		At: now, Violations: c.result.Violations + int64(violations),
		Unended: c.result.Unended + int64(unended), Unchecked: c.result.Unchecked + int64(unchecked),
	}
	c.mu.Unlock()
	c.cfg.Found(violations, unended)
	return nil
}

// violations counts the admissions until a moment that came sooner than a rule or the hours allow, and those that can't
// be checked.
func (c *Checker) violations(ctx context.Context, until throttle.Micros) (found, notChecked int, err error) {
	after := c.checked
	if until <= after {
		return 0, 0, nil
	}
	r := &round{
		Checker: c, after: after, until: until, inForce: throttle.MicrosOf(c.cfg.InForce().Add(settling)),
		unchecked: map[unchecked]int{},
	}
	r.version = r.versionNow()
	err = c.cfg.Source.Admissions(ctx, after, until, c.cfg.Window, func(m Admission) error { return r.add(ctx, m) })
	if err != nil {
		return 0, 0, fmt.Errorf("read the admissions: %w", err)
	}
	r.endUser()
	c.forgetExempt(after)
	for _, v := range r.first {
		c.cfg.Log.ErrorContext(ctx, "a limit was exceeded", "user_id", v.UserID, "category", v.Category,
			"notification_id", v.ID, "rule", v.rule, "earlier_by", v.early.String())
	}
	return r.found, r.tellUnchecked(ctx), nil
}

// unended counts the notifications that should have ended and were not counted before.
func (c *Checker) unended(ctx context.Context, now time.Time) (int, error) {
	found, known := 0, map[string]bool{}
	err := c.cfg.Source.EachOpen(ctx, now.Add(-grace), func(o Open) error {
		limit := o.Since.Add(c.cfg.MaxLife(o))
		if !o.ExpiresAt.IsZero() && o.ExpiresAt.Before(limit) {
			limit = o.ExpiresAt
		}
		if now.Before(limit.Add(grace)) || known[o.ID] || c.cfg.Paused(o) || len(known) >= remembered {
			return nil
		}
		known[o.ID] = true
		if c.known[o.ID] {
			return nil
		}
		if found++; found <= named {
			c.cfg.Log.ErrorContext(ctx, "a notification should have ended", "notification_id", o.ID,
				"user_id", o.UserID, "category", o.Category, "since", o.Since, "limit", limit)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read what has not ended: %w", err)
	}
	c.known = known
	return found, nil
}
