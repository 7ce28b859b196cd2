package invariant_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Until the moment until which a user wanted quiet nothing is admitted, and nothing is spread after it.
func TestQuietUntil(t *testing.T) {
	t.Parallel()
	start := throttle.MicrosOf(began)
	const m = time.Minute
	for name, c := range map[string]struct {
		at, until time.Duration
		hours     invariant.Hours
		critical  bool
		want      int64
	}{
		"before it":               {at: 5 * m, until: 5*m + time.Microsecond, want: 1},
		"at it":                   {at: 5 * m, until: 5 * m},
		"exempt":                  {at: 5 * m, until: 10 * m, critical: true},
		"at it, in the night":     {at: 12 * m, until: 12 * m, hours: night(start), want: 1},
		"long before, by day":     {at: m, until: 3 * m, hours: night(start), want: 1},
		"after it, by day":        {at: 4 * m, until: 3 * m, hours: night(start)},
		"after the night, and it": {at: 3 * time.Hour, until: 2 * time.Hour, hours: night(start)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admission := planted{user: "ada", category: "chat", after: c.at, bypass: c.critical}.admission("n", start)
			result, log := round(t, &store{admissions: []invariant.Admission{admission}}, func(cfg *invariant.Config) {
				cfg.Behind = -4 * time.Hour
				cfg.Hours = func(invariant.Admission) invariant.Hours {
					hours := c.hours
					hours.Until, hours.ExemptFrom = start.Add(c.until), notification.PriorityCritical
					return hours
				}
			}, invariant.Limits{})
			if result.Violations != c.want {
				t.Errorf("%d violations, want %d: %s", result.Violations, c.want, log)
			}
		})
	}
}

// What a user's admissions were allowed by before the preferences changed can't be known: they are counted as not
// checked, also in the windows of the limits of today. Caps are no user's own.
func TestChangedPreferences(t *testing.T) {
	t.Parallel()
	start := began
	limit := throttle.Rule{Max: 2, Per: time.Hour}
	userCap := throttle.Rule{Max: 2, Per: time.Hour, Kind: throttle.KindCap}
	const s = time.Second
	for name, c := range map[string]struct {
		rule                  throttle.Rule
		at                    []time.Duration
		violations, unchecked int64
	}{
		"before and after":      {rule: limit, at: []time.Duration{s, 2 * s, 20 * s, 21 * s}, unchecked: 2},
		"after":                 {rule: limit, at: []time.Duration{20 * s, 21 * s, 22 * s}, violations: 1},
		"while it spreads":      {rule: limit, at: []time.Duration{13 * s, 14 * s, 15 * s}, unchecked: 3},
		"a cap, before":         {rule: userCap, at: []time.Duration{s, 2 * s, 3 * s}, violations: 1, unchecked: 3},
		"a cap, and after":      {rule: userCap, at: []time.Duration{s, 2 * s, 20 * s}, violations: 1, unchecked: 2},
		"a cap, as allowed":     {rule: userCap, at: []time.Duration{s, 2 * s}, unchecked: 2},
		"a cap, an hour later":  {rule: userCap, at: []time.Duration{s, 2 * s, time.Hour + s}, unchecked: 2},
		"a limit, an hour late": {rule: limit, at: []time.Duration{s, 2 * s, time.Hour - s, time.Hour}, unchecked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := &store{}
			for i, at := range c.at {
				kept.admissions = append(kept.admissions, planted{user: "ada", category: "chat", after: at}.admission(
					fmt.Sprint(i), throttle.MicrosOf(start)))
			}
			cfg := config(kept, nil)
			cfg.Now = func() time.Time { return start }
			cfg.Limits = func(string, string) invariant.Limits { return limitsOf(throttle.Rolling, c.rule) }
			checker := invariant.New(cfg)
			checker.Exempt("ada")
			var got invariant.Result
			for _, after := range []time.Duration{time.Minute, 2 * time.Hour} { // a round later it is not forgotten
				if err := checker.Round(t.Context(), start.Add(after)); err != nil {
					t.Fatal(err)
				}
				got = checker.Latest()
			}
			if got.Violations != c.violations || got.Unchecked != c.unchecked {
				t.Errorf("%d violations and %d unchecked, want %d and %d", got.Violations, got.Unchecked, c.violations,
					c.unchecked)
			}
		})
	}
}

// A policy or preferences that change while the checker is at work accuse nobody of what others allowed.
func TestChangedWhileItIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*invariant.Checker, *string){
		"Nothing":     func(*invariant.Checker, *string) {},
		"Policy":      func(_ *invariant.Checker, version *string) { *version = "new" },
		"Preferences": func(c *invariant.Checker, _ *string) { c.Exempt("ada") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, version := &store{}, "old"
			s.admit(time.Second, 2*time.Second)
			for i := range s.admissions {
				s.admissions[i].Version = "old"
			}
			var checker *invariant.Checker
			cfg := config(s, nil)
			cfg.Version = func() string { return version }
			cfg.Limits = func(string, string) invariant.Limits {
				change(checker, &version)
				return limitsOf(throttle.Rolling, throttle.Rule{Max: 1, Per: time.Minute})
			}
			checker = invariant.New(cfg)
			if err := checker.Round(t.Context(), began.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			want := invariant.Result{Violations: 1}
			if name != "Nothing" {
				want = invariant.Result{Unchecked: 1}
			}
			if got := checker.Latest(); got.Violations != want.Violations || got.Unchecked != want.Unchecked {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// However many users change their preferences, the checker remembers no more of them than it may, and then takes
// everybody's for changed.
func TestChangedPreferencesOfMany(t *testing.T) {
	t.Parallel()
	start := began
	s := &store{}
	for i, after := range []time.Duration{time.Second, 2 * time.Second, 20 * time.Second, 21 * time.Second} {
		s.admissions = append(s.admissions, planted{user: "never changed", after: after}.admission(fmt.Sprint(i),
			throttle.MicrosOf(start)))
	}
	for name, c := range map[string]struct {
		changed               int
		violations, unchecked int64
	}{
		"as many as it remembers": {changed: 10_000, violations: 3},
		"one more":                {changed: 10_001, violations: 1, unchecked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(&store{admissions: append([]invariant.Admission(nil), s.admissions...)}, nil)
			cfg.Now = func() time.Time { return start }
			cfg.Limits = func(string, string) invariant.Limits {
				return limitsOf(throttle.Rolling, throttle.Rule{Max: 1, Per: time.Minute})
			}
			checker := invariant.New(cfg)
			for i := range c.changed {
				checker.Exempt(fmt.Sprint("user", i))
			}
			if err := checker.Round(t.Context(), start.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if got := checker.Latest(); got.Violations != c.violations || got.Unchecked != c.unchecked {
				t.Errorf("%+v, want %+v", got, c)
			}
		})
	}
}

// What was not checked is told, with the reason.
func TestUncheckedIsTold(t *testing.T) {
	t.Parallel()
	s := &store{}
	s.admit(time.Second, 2*time.Second)
	result, log := round(t, s, func(cfg *invariant.Config) { cfg.Cleared = clearedOf("ada") },
		limitsOf(throttle.Rolling, throttle.Rule{Max: 1, Per: time.Minute}))
	told := strings.Contains(log, "windows were cleared") && strings.Contains(log, "admissions=2")
	if result.Unchecked != 2 || !told {
		t.Errorf("%+v; the log says %s", result, log)
	}
	var text strings.Builder
	cfg := config(s, nil)
	cfg.Log = slog.New(slog.NewTextHandler(&text, nil))
	checker := invariant.New(cfg)
	checker.Exempt("ada")
	if err := checker.Round(context.Background(), began.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "preferences have changed") {
		t.Errorf("the log says %s", text.String())
	}
}
