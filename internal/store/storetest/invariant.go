package storetest

import (
	"context"
	"log/slog"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// audited has an checker look at the store under terms that may be others than those it was made under.
func audited(p *probe, terms invariant.Terms) func(after time.Duration) (violations, unended int) {
	var violations, unended int
	checker := invariant.New(invariant.Config{
		Source: p.Subject, Terms: func(string, string) invariant.Terms { return terms },
		Window:  func() time.Duration { return time.Hour },
		InForce: func() time.Time { return time.Time{} }, Resting: func(invariant.Open) bool { return false },
		Cleared: func(context.Context, time.Time) (map[string]bool, error) { return nil, nil },
		Behind:  time.Microsecond,
		Found:   func(v, u int) { violations, unended = v, u }, Log: slog.New(slog.DiscardHandler),
	})
	return func(after time.Duration) (int, int) {
		p.Helper()
		if err := checker.Round(p.Context(), time.Now().Add(after)); err != nil {
			p.Fatal(err)
		}
		return violations, unended
	}
}

// auditorSees: what was delivered is judged by its own moments, and what has not ended is found, each once.
func auditorSees(p *probe) {
	limited := func(rules ...throttle.Rule) invariant.Terms {
		return invariant.Terms{Plan: throttle.Plan{Rules: rules}, MaxLife: time.Hour}
	}
	strict := audited(p, limited(throttle.Rule{Max: 1, Per: time.Minute}))
	loose := audited(p, limited(throttle.Rule{Max: 3, Per: time.Minute}))
	capped := audited(p, limited(throttle.Rule{Max: 2, Per: time.Minute, Kind: throttle.KindCap}))
	for i := range 3 {
		p.accept(func(n *notification.Notification) {
			if i == 2 {
				n.Category = "other"
			}
		})
		p.settle(p.grant(), dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"})
	}
	waits := p.accept(func(n *notification.Notification) { n.SendAt = time.Now().Add(24 * time.Hour) })
	for name, c := range map[string]struct {
		round func(time.Duration) (int, int)
		want  int
	}{"one a minute": {strict, 1}, "three a minute": {loose, 0}, "two of all": {capped, 1}} {
		if violations, unended := c.round(time.Second); violations != c.want || unended != 0 {
			p.Errorf("%s: %d violations and %d unended, want %d and 0", name, violations, unended, c.want)
		}
		if violations, _ := c.round(2 * time.Second); violations != 0 {
			p.Errorf("%s: the next round finds %d again", name, violations)
		}
	}
	if _, unended := loose(24*time.Hour + 30*time.Minute); unended != 0 {
		p.Errorf("%s may still wait, and is found", waits.ID)
	}
	for want := range 2 {
		if _, unended := loose(26 * time.Hour); unended != 1-want {
			p.Errorf("%d are found that should have ended, want %d", unended, 1-want)
		}
	}
}
