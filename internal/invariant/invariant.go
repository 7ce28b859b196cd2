// Package invariant checks, again and again, that no user got more than the rules allow, and that everything accepted
// has ended in time. It looks at what the store holds, not at what the limiter believes.
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

// Admission is a delivery that the limiter let go and that was made.
type Admission struct {
	ID, UserID, Category string
	At                   throttle.Micros
	Priority             notification.Priority
}

// Open is a notification that has not ended.
type Open struct {
	ID, UserID, Category, Channel string
	// Since is when its time to wait began: when it was accepted, or its send_at.
	Since     time.Time
	ExpiresAt time.Time // zero without one
}

// Source is a store to be audited.
type Source interface {
	// Admissions gives those of each user who was admitted after one moment and until another, with all of his from
	// window before the former on, in any order.
	Admissions(ctx context.Context, after, until throttle.Micros, window time.Duration) ([]Admission, error)
	// Open gives what was accepted before a moment and has not ended; at most some thousand of it.
	Open(ctx context.Context, before time.Time) ([]Open, error)
}

// Terms are what a user's category has to keep to.
type Terms struct {
	Plan throttle.Plan
	// BypassFrom is the least urgent priority that is not limited; 0 none.
	BypassFrom notification.Priority
	// MaxLife is how long a notification may take from the moment that it may go out until it has ended.
	MaxLife time.Duration
}

// Config of an Checker.
type Config struct {
	Source Source
	// Terms gives those in force, Window the longest window of any rule.
	Terms  func(userID, category string) Terms
	Window func() time.Duration
	// InForce is since when the terms are those. What was admitted before is not judged.
	InForce func() time.Time
	// Cleared gives the users whose windows an operator cleared since a moment: the store does not tell what the
	// limiter was told to forget. Resting tells whether operators paused what a notification belongs to.
	Cleared func(ctx context.Context, since time.Time) (map[string]bool, error)
	Resting func(o Open) bool
	// Every is how often it audits, Behind how far behind now it stays, since a delivery is written down when it has
	// ended. Default to a minute and 30 s.
	Every, Behind time.Duration
	// Found is told what each round found anew.
	Found func(violations, unended int)
	Log   *slog.Logger
}

const (
	// settling is how long a change of terms may take to reach every process.
	settling = 15 * time.Second
	// grace is how much longer than its limits a notification may take.
	grace = 5 * time.Minute
	// named is how many findings of a round are logged by name.
	named = 10
	// remembered is how many unended notifications are kept in mind, so that each is counted once.
	remembered = 10_000
)

// Result is what was found.
type Result struct {
	// At is when the latest round ended; zero before the first.
	At time.Time
	// Violations and Unended count since the process began, each finding once.
	Violations, Unended int64
}

// Checker audits.
type Checker struct {
	cfg     Config
	audited throttle.Micros // up to there
	known   map[string]bool // unended

	mu     sync.Mutex
	result Result
	// exempt are users whose own limits changed, and when.
	exempt map[string]time.Time
}

// New makes an Checker that begins with what is admitted from now on.
func New(cfg Config) *Checker {
	cfg.Every, cfg.Behind = cmp.Or(cfg.Every, time.Minute), cmp.Or(cfg.Behind, 30*time.Second)
	return &Checker{
		cfg: cfg, audited: throttle.MicrosOf(time.Now()), known: map[string]bool{},
		exempt: map[string]time.Time{},
	}
}

// Exempt has a user's admissions up to now not be judged: his limits have changed. It may be called on a nil Checker.
func (a *Checker) Exempt(userID string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exempt[userID] = time.Now()
}

// exempted tells whether a user's limits changed since a moment, and forgets earlier changes.
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

// Latest gives what was found up to now.
func (a *Checker) Latest() Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result
}

// Run audits until ctx ends.
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
			a.cfg.Log.WarnContext(ctx, "the store can't be audited now", "error", err)
		}
	}
}

// Round audits once what was admitted since the round before.
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
	a.audited = max(a.audited, until)
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
	after := max(a.audited, throttle.MicrosOf(a.cfg.InForce().Add(settling)))
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
	// A change is known a little after it holds.
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
			for _, v := range a.judge(admissions[:n], after, until) {
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

// violation is an admission that came too early.
type violation struct {
	Admission
	rule  throttle.Rule
	early time.Duration
}

// past is what a user was admitted up to a moment, oldest first.
type past struct {
	all []throttle.Micros
	// category and judged are those of each category, the latter without bypasses: windows and buckets hold back only
	// what is judged, while a log counts every one.
	category, judged map[string][]throttle.Micros
}

// judge looks at one user's admissions, oldest first, and gives those after a moment that some rule did not allow.
func (a *Checker) judge(admissions []Admission, after, until throttle.Micros) []violation {
	var found []violation
	before := past{
		all:      make([]throttle.Micros, 0, len(admissions)),
		category: map[string][]throttle.Micros{}, judged: map[string][]throttle.Micros{},
	}
	for _, m := range admissions {
		terms := a.cfg.Terms(m.UserID, m.Category)
		if !m.Priority.AtLeast(terms.BypassFrom) {
			if m.At > after && m.At <= until {
				if v, broken := before.exceeded(m, terms.Plan); broken {
					found = append(found, v)
				}
			}
			before.judged[m.Category] = append(before.judged[m.Category], m.At)
		}
		before.category[m.Category] = append(before.category[m.Category], m.At)
		before.all = append(before.all, m.At)
	}
	return found
}

// exceeded tells whether an admission came within a window that was full: of the category's admissions before it, or of
// all of the user's for a cap.
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

// counted gives the admissions that a rule looks at, and how many of them make its window full. Windows that are not
// rolling may pass twice as many across their edge; gaps and caps are exact in every plan.
func (p past) counted(category string, algorithm throttle.Algorithm,
	rule throttle.Rule,
) (before []throttle.Micros, most int) {
	switch {
	case rule.Kind == throttle.KindCap:
		return p.all, rule.Max
	case rule.Kind == throttle.KindLimit && !algorithm.KeepsLog():
		return p.judged[category], algorithm.MostWithin(rule)
	}
	return p.category[category], rule.Max
}

// unended counts what should have ended and was not counted before.
func (a *Checker) unended(ctx context.Context, now time.Time) (int, error) {
	open, err := a.cfg.Source.Open(ctx, now.Add(-grace))
	if err != nil {
		return 0, fmt.Errorf("read what has not ended: %w", err)
	}
	found, known := 0, map[string]bool{}
	for _, o := range open {
		limit := o.Since.Add(a.cfg.Terms(o.UserID, o.Category).MaxLife)
		if !o.ExpiresAt.IsZero() && o.ExpiresAt.Before(limit) {
			limit = o.ExpiresAt
		}
		if now.Before(limit.Add(grace)) || a.cfg.Resting(o) || len(known) >= remembered {
			continue
		}
		known[o.ID] = true
		if a.known[o.ID] {
			continue
		}
		if found++; found <= named {
			a.cfg.Log.ErrorContext(ctx, "a notification should have ended", "notification_id", o.ID, "user_id",
				o.UserID,
				"category", o.Category, "since", o.Since, "limit", limit)
		}
	}
	a.known = known
	return found, nil
}
