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

// checkerOf makes an invariant checker of the store. Its limits may differ from those under which the store admits. The
// function that it returns makes a round so long after now, and returns what the round found.
func checkerOf(p *probe, limits invariant.Limits) func(after time.Duration) (violations, unended int) {
	var violations, unended int
	checker := invariant.New(invariant.Config{
		Source:  p.Subject,
		Limits:  func(string, string) invariant.Limits { return limits },
		Window:  func() time.Duration { return time.Hour },
		InForce: func() time.Time { return time.Time{} },
		Cleared: func(context.Context, time.Time) (map[string]bool, error) { return nil, nil },
		Paused:  func(invariant.Open) bool { return false },
		Behind:  time.Microsecond,
		Found:   func(v, u int) { violations, unended = v, u },
		Log:     slog.New(slog.DiscardHandler),
	})
	return func(after time.Duration) (int, int) {
		p.Helper()
		if err := checker.Round(p.Context(), time.Now().Add(after)); err != nil {
			p.Fatal(err)
		}
		return violations, unended
	}
}

// checkerSees: the invariant checker finds each admission that came too early, and each notification that has not ended
// in time, once.
func checkerSees(p *probe) {
	limited := func(rules ...throttle.Rule) invariant.Limits {
		return invariant.Limits{Plan: throttle.Plan{Rules: rules}, MaxLife: time.Hour}
	}
	strict := checkerOf(p, limited(throttle.Rule{Max: 1, Per: time.Minute}))
	loose := checkerOf(p, limited(throttle.Rule{Max: 3, Per: time.Minute}))
	capped := checkerOf(p, limited(throttle.Rule{Max: 2, Per: time.Minute, Kind: throttle.KindCap}))
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
	}{
		"one a minute":           {round: strict, want: 1},
		"three a minute":         {round: loose, want: 0},
		"two in all, the user's": {round: capped, want: 1},
	} {
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
