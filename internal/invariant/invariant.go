// Package invariant is the invariant checker. Again and again it checks that no user got more than the limits allow,
// and that every accepted notification has ended in time. It looks at what the store holds, not at what the limiter
// believes.
package invariant

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Admission is a delivery that the limiter admitted and that was made.
type Admission struct {
	ID, UserID, Category string
	At                   throttle.Micros
	Priority             notification.Priority
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
	// Admissions finds every user with an admission after one moment and until another. It returns all admissions of
	// these users until the latter, as far back as window before the former, in any order.
	Admissions(ctx context.Context, after, until throttle.Micros, window time.Duration) ([]Admission, error)
	// Open returns notifications that were accepted before a moment and have not ended, at most a few thousand.
	Open(ctx context.Context, before time.Time) ([]Open, error)
}

// Limits are what must hold for a user in a category.
type Limits struct {
	Plan throttle.Plan
	// BypassFrom is the least urgent priority that is not limited; 0 when every priority is.
	BypassFrom notification.Priority
	// MaxLife is how long a notification may take from the moment that it may go out until it has ended.
	MaxLife time.Duration
}

// Config of a Checker.
type Config struct {
	Source Source
	// Limits gives the limits in force.
	Limits func(userID, category string) Limits
	// Window gives the longest window of any rule.
	Window func() time.Duration
	// InForce gives the moment since which the limits are in force. Earlier admissions are not checked.
	InForce func() time.Time
	// Cleared gives the users whose windows an operator has cleared since a moment: the store does not know what the
	// limiter was told to forget.
	Cleared func(ctx context.Context, since time.Time) (map[string]bool, error)
	// Paused tells whether operators have paused the channel, category or partition of a notification.
	Paused func(o Open) bool
	// Every is the time between two rounds. Defaults to a minute.
	Every time.Duration
	// Behind is how far behind now the checker stays, because an admission is written when its delivery has ended.
	// Defaults to 30 s.
	Behind time.Duration
	// Found is called after each round with the number of new findings.
	Found func(violations, unended int)
	Log   *slog.Logger
}

const (
	// settling is how long a change of limits may take to reach every process.
	settling = 15 * time.Second
	// grace is how much longer than its limits a notification may take.
	grace = 5 * time.Minute
	// named is how many findings of a round are logged, each with its name.
	named = 10
	// remembered is how many unended notifications the checker remembers, so that it counts each once.
	remembered = 10_000
)

// Result is what the checker has found.
type Result struct {
	// At is when the latest round ended; zero before the first.
	At time.Time
	// Violations are admissions that some limit did not allow, Unended notifications that should have ended. Both count
	// since the process began, each finding once.
	Violations, Unended int64
}

// Checker checks a store, one round after another.
type Checker struct {
	cfg     Config
	checked throttle.Micros // every admission up to this moment is
	known   map[string]bool // unended notifications that were counted, by id

	mu     sync.Mutex
	result Result
	// exempt are the users whose own limits have changed, and when.
	exempt map[string]time.Time
}

// New makes a Checker that begins with the admissions from now on.
func New(cfg Config) *Checker {
	cfg.Every, cfg.Behind = cmp.Or(cfg.Every, time.Minute), cmp.Or(cfg.Behind, 30*time.Second)
	return &Checker{
		cfg: cfg, checked: throttle.MicrosOf(time.Now()), known: map[string]bool{},
		exempt: map[string]time.Time{},
	}
}

// Exempt excludes a user's admissions up to now from the checks, because the user's own limits have changed. It may be
// called on a nil Checker.
func (a *Checker) Exempt(userID string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exempt[userID] = time.Now()
}

// exempted gives the users whose limits have changed since a moment, and forgets earlier changes.
func (a *Checker) exempted(since time.Time) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	users := map[string]bool{}
	for user, at := range a.exempt {
		if at.Before(since) {
			delete(a.exempt, user)
			continue
		}
		users[user] = true
	}
	return users
}

// Latest returns what was found up to now.
func (a *Checker) Latest() Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result
}

// Run makes rounds until ctx ends.
func (a *Checker) Run(ctx context.Context) {
	ticker := time.NewTicker(a.cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := a.Round(ctx, time.Now()); err != nil && ctx.Err() == nil {
			a.cfg.Log.WarnContext(ctx,
				"the invariant checker could not read the store; it tries again in its next round",
				"error", err)
		}
	}
}

// Round checks what was admitted since the round before, and looks for notifications that should have ended.
func (a *Checker) Round(ctx context.Context, now time.Time) error {
	until := throttle.MicrosOf(now.Add(-a.cfg.Behind))
	violations, err := a.violations(ctx, until)
	if err != nil {
		return err
	}
	unended, err := a.unended(ctx, now)
	if err != nil {
		return err
	}
	a.checked = max(a.checked, until)
	a.mu.Lock()
	a.result = Result{
		At: now, Violations: a.result.Violations + int64(violations),
		Unended: a.result.Unended + int64(unended),
	}
	a.mu.Unlock()
	a.cfg.Found(violations, unended)
	return nil
}

// violations counts the admissions until a moment that came sooner than a rule allows.
func (a *Checker) violations(ctx context.Context, until throttle.Micros) (int, error) {
	window := a.cfg.Window()
	after := max(a.checked, throttle.MicrosOf(a.cfg.InForce().Add(settling)))
	if until <= after {
		return 0, nil
	}
	admissions, err := a.cfg.Source.Admissions(ctx, after, until, window)
	if err != nil {
		return 0, fmt.Errorf("read the admissions: %w", err)
	}
	cleared, err := a.cfg.Cleared(ctx, after.Time().Add(-window))
	if err != nil {
		return 0, fmt.Errorf("read whose windows were cleared: %w", err)
	}
	// This process learns of a change a little after it takes effect.
	for user := range a.exempted(after.Time().Add(-settling)) {
		cleared[user] = true
	}
	slices.SortFunc(admissions, func(x, y Admission) int {
		return cmp.Or(cmp.Compare(x.UserID, y.UserID), cmp.Compare(x.At, y.At), cmp.Compare(x.ID, y.ID))
	})
	found := 0
	for len(admissions) > 0 {
		n := 1
		for n < len(admissions) && admissions[n].UserID == admissions[0].UserID {
			n++
		}
		if !cleared[admissions[0].UserID] {
			for _, v := range a.findViolations(admissions[:n], after, until) {
				if found++; found <= named {
					a.cfg.Log.ErrorContext(ctx, "a limit was exceeded", "user_id", v.UserID, "category", v.Category,
						"notification_id", v.ID, "rule", v.rule.String(), "earlier_by", v.early.String())
				}
			}
		}
		admissions = admissions[n:]
	}
	return found, nil
}

// violation is an admission that came too early under a rule.
type violation struct {
	Admission
	rule  throttle.Rule
	early time.Duration
}

// past are a user's admissions up to a moment, oldest first.
type past struct {
	all []throttle.Micros
	// category holds the admissions of each category, limited those of them that were no bypasses. A log counts every
	// admission; fixed windows and token buckets hold back only what is limited.
	category, limited map[string][]throttle.Micros
}

// findViolations goes through one user's admissions, oldest first. It returns those after one moment and until another
// that some rule did not allow.
func (a *Checker) findViolations(admissions []Admission, after, until throttle.Micros) []violation {
	var found []violation
	before := past{
		all:      make([]throttle.Micros, 0, len(admissions)),
		category: map[string][]throttle.Micros{}, limited: map[string][]throttle.Micros{},
	}
	for _, m := range admissions {
		limits := a.cfg.Limits(m.UserID, m.Category)
		if !m.Priority.AtLeast(limits.BypassFrom) {
			if m.At > after && m.At <= until {
				if v, exceeded := before.exceeded(m, limits.Plan); exceeded {
					found = append(found, v)
				}
			}
			before.limited[m.Category] = append(before.limited[m.Category], m.At)
		}
		before.category[m.Category] = append(before.category[m.Category], m.At)
		before.all = append(before.all, m.At)
	}
	return found
}

// exceeded tells whether an admission came while the window of some rule was full: full of the admissions before it, of
// its category or, for a user cap, of all categories.
func (p past) exceeded(m Admission, plan throttle.Plan) (violation, bool) {
	for _, rule := range plan.Rules {
		before, most := p.counted(m.Category, plan.Algorithm, rule)
		if len(before) < most {
			continue
		}
		since := m.At.Time().Sub(before[len(before)-most].Time())
		if since < rule.Per {
			return violation{m, rule, rule.Per - since}, true
		}
	}
	return violation{}, false
}

// counted gives the admissions that a rule counts, and how many of them fill its window. Windows that are not rolling
// may admit nearly twice as many across their edge. Gaps and user caps are exact under every algorithm.
func (p past) counted(category string, algorithm throttle.Algorithm,
	rule throttle.Rule,
) (before []throttle.Micros, most int) {
	switch {
	case rule.Kind == throttle.KindCap:
		return p.all, rule.Max
	case rule.Kind == throttle.KindLimit && !algorithm.KeepsLog():
		return p.limited[category], algorithm.MostWithin(rule)
	}
	return p.category[category], rule.Max
}

// unended counts the notifications that should have ended and were not counted before.
func (a *Checker) unended(ctx context.Context, now time.Time) (int, error) {
	open, err := a.cfg.Source.Open(ctx, now.Add(-grace))
	if err != nil {
		return 0, fmt.Errorf("read what has not ended: %w", err)
	}
	found, known := 0, map[string]bool{}
	for _, o := range open {
		limit := o.Since.Add(a.cfg.Limits(o.UserID, o.Category).MaxLife)
		if !o.ExpiresAt.IsZero() && o.ExpiresAt.Before(limit) {
			limit = o.ExpiresAt
		}
		if now.Before(limit.Add(grace)) || a.cfg.Paused(o) || len(known) >= remembered {
			continue
		}
		known[o.ID] = true
		if a.known[o.ID] {
			continue
		}
		if found++; found <= named {
			a.cfg.Log.ErrorContext(ctx, "a notification should have ended", "notification_id", o.ID,
				"user_id", o.UserID, "category", o.Category, "since", o.Since, "limit", limit)
		}
	}
	a.known = known
	return found, nil
}
