package invariant_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// night is an hour from ten minutes after the beginning of a test on, with a spread of ten minutes.
func night(start throttle.Micros) invariant.Hours {
	begin := start.Add(10 * time.Minute)
	return invariant.Hours{
		Closed: throttle.Closed{{From: begin, Until: begin.Add(time.Hour)}}, Spread: 10 * time.Minute,
		ExemptFrom: notification.PriorityCritical,
	}
}

// afterNight is how long after the beginning of a test a user's night ends.
func afterNight(user string) time.Duration {
	plan := throttle.Plan{Closed: night(0).Closed, Spread: night(0).Spread}.For(user)
	return plan.Closed[0].Until.Sub(0)
}

// The checker finds what was admitted in closed hours, or in the spread after them before its user's part of it.
func TestClosedHours(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	ada := afterNight("ada")
	if ada < 72*m || ada > 79*m {
		t.Fatalf("ada's night ends after %s: the cases below need one well within the spread", ada)
	}
	for name, c := range map[string]struct {
		at      time.Duration
		expires time.Duration
		change  func(*invariant.Admission)
		want    int64
	}{
		"before the night":           {at: 10*m - time.Microsecond, want: 0},
		"when it begins":             {at: 10 * m, want: 1},
		"in the night":               {at: 30 * m, want: 1},
		"as it ends":                 {at: 70 * m, want: 1},
		"a microsecond early":        {at: ada - time.Microsecond, want: 1},
		"at the user's own moment":   {at: ada, want: 0},
		"expires in the spread":      {at: 70*m + 10*time.Second, expires: 71 * m, want: 0},
		"two minutes before it does": {at: 70*m + 10*time.Second, expires: 72*m + 10*time.Second, want: 1},
		"expires in the night":       {at: 70*m - time.Microsecond, expires: 70 * m, want: 1},
		"expires after the spread":   {at: 70 * m, expires: 2 * time.Hour, want: 1},
		"exempt priority": {
			at: 30 * m, change: func(a *invariant.Admission) { a.Priority = notification.PriorityCritical }, want: 0,
		},
		"exempt category": {at: 30 * m, change: func(a *invariant.Admission) { a.Category = "open" }, want: 0},
		"bypass":          {at: 30 * m, change: func(a *invariant.Admission) { a.Category = "bypass" }, want: 0},
		"another zone":    {at: 30 * m, change: func(a *invariant.Admission) { a.Zone = "elsewhere" }, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if result, log := roundInHours(t, c.at, c.expires, c.change); result.Violations != c.want ||
				strings.Count(log, "rule=quiet_hours") != int(c.want) {
				t.Errorf("%d violations, want %d; the log says %s", result.Violations, c.want, log)
			}
		})
	}
}

// roundInHours checks one admission in a night.
func roundInHours(t *testing.T, at, expires time.Duration, change func(*invariant.Admission),
) (result invariant.Result, log string) {
	t.Helper()
	start := throttle.MicrosOf(began)
	admission := invariant.Admission{
		ID: "n1", UserID: "ada", Category: "chat", Priority: notification.PriorityNormal, At: start.Add(at),
	}
	if expires > 0 {
		admission.ExpiresAt = start.Add(expires).Time()
	}
	if change != nil {
		change(&admission)
	}
	return round(t, &store{admissions: []invariant.Admission{admission}}, func(cfg *invariant.Config) {
		cfg.Behind = -time.Hour
		cfg.Limits = func(_, category string) invariant.Limits {
			if category == "bypass" {
				return invariant.Limits{BypassFrom: notification.PriorityLow}
			}
			return invariant.Limits{}
		}
		cfg.Hours = func(a invariant.Admission) invariant.Hours {
			if a.Category == "open" || a.Zone != "" {
				return invariant.Hours{}
			}
			return night(start)
		}
	}, invariant.Limits{})
}

// Cleared windows are no reason not to look at the hours, and changed limits are one only for what was admitted before.
func TestClosedHoursOfWhoIsExempt(t *testing.T) {
	t.Parallel()
	start := throttle.MicrosOf(began)
	for name, c := range map[string]struct {
		at     time.Duration
		change func(*invariant.Config)
		exempt string
		want   int64
	}{
		"cleared": {at: 30 * time.Minute, want: 1},
		"changed": {at: 30 * time.Minute, exempt: "ada", want: 1},
		"changed, and seconds later admitted": {
			at: 5 * time.Second, exempt: "ada", want: 0,
		},
		"not changed, and seconds later admitted": {at: 5 * time.Second, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admission := invariant.Admission{ID: "n1", UserID: "ada", At: start.Add(c.at), Priority: 3}
			cfg := config(&store{admissions: []invariant.Admission{admission}}, nil)
			cfg.Cleared = clearedOf("ada")
			cfg.Hours = func(invariant.Admission) invariant.Hours {
				return invariant.Hours{Closed: throttle.Closed{{From: start, Until: start.Add(time.Hour)}}}
			}
			checker := invariant.New(cfg)
			checker.Exempt(c.exempt)
			if err := checker.Round(t.Context(), began.Add(2*time.Hour)); err != nil {
				t.Fatal(err)
			}
			if got := checker.Latest().Violations; got != c.want {
				t.Errorf("%d violations, want %d", got, c.want)
			}
		})
	}
}

// A new policy with a longer window sees only what the limiter remembers of the time before: what it forgot does not
// fill the window.
func TestWhatTheLimiterForgot(t *testing.T) {
	t.Parallel()
	start := throttle.MicrosOf(began)
	limits := limitsOf(throttle.Rolling, throttle.Rule{Max: 2, Per: time.Minute})
	for name, c := range map[string]struct {
		versions   string
		remembered bool
		want       int64
	}{
		"remembered":              {versions: "oon", remembered: true, want: 1},
		"forgotten":               {versions: "oon", want: 0},
		"one of two is forgotten": {versions: "onn", want: 0},
		"enough since":            {versions: "onnn", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := &store{}
			for i, version := range c.versions {
				m := planted{user: "ada", category: "chat", after: time.Duration(i+1) * time.Second}
				source.admissions = append(source.admissions, m.admission(string(rune('a'+i)), start))
				source.admissions[i].Version = string(version)
			}
			result, log := round(t, source, func(cfg *invariant.Config) {
				cfg.Version = func() string { return "n" }
				cfg.Remembers = func(version, category string, _ throttle.Rule) bool {
					return c.remembered && version == "o" && category == "chat"
				}
			}, limits)
			if result.Violations != c.want {
				t.Errorf("%d violations, want %d: %s", result.Violations, c.want, log)
			}
		})
	}
}

// What another version of the policy decided is not checked, and not passed in silence either.
func TestAnotherPolicy(t *testing.T) {
	t.Parallel()
	start := throttle.MicrosOf(began)
	limits := limitsOf(throttle.Rolling, throttle.Rule{Max: 1, Per: time.Minute})
	for name, c := range map[string]struct {
		versions              []string
		changed               time.Duration // when the policy was replaced, after the first admission
		violations, unchecked int64
	}{
		"the one in force":    {versions: []string{"new", "new", "new"}, violations: 2},
		"the one before":      {versions: []string{"old", "old", "old"}, unchecked: 3},
		"one after the other": {versions: []string{"old", "new", "older"}, violations: 1, unchecked: 2},
		"the new one, while it spread": {
			versions: []string{"old", "new", "new"}, changed: time.Second, violations: 2, unchecked: 1,
		},
		"unknown":                     {versions: []string{"", "", ""}, violations: 2},
		"unknown, and replaced since": {versions: []string{"", "", ""}, changed: time.Hour, unchecked: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := &store{}
			for i, version := range c.versions {
				source.admissions = append(source.admissions, invariant.Admission{
					ID: string(rune('a' + i)), UserID: "ada", At: start.Add(time.Duration(i+1) * time.Second),
					Priority: notification.PriorityNormal, Version: version,
				})
			}
			result, log := round(t, source, func(cfg *invariant.Config) {
				cfg.Version = func() string { return "new" }
				if c.changed > 0 {
					cfg.InForce = func() time.Time { return start.Time().Add(c.changed) }
				}
			}, limits)
			if result.Violations != c.violations || result.Unchecked != c.unchecked {
				t.Errorf("%d violations and %d unchecked, want %d and %d: %s", result.Violations, result.Unchecked,
					c.violations, c.unchecked, log)
			}
			for _, version := range slices.Compact(c.versions) {
				told := strings.Contains(log, "policy_version="+version+" ")
				if version != "" && told != (version != "new") {
					t.Errorf("version %s is told as not checked: %t; the log says %s", version, told, log)
				}
			}
		})
	}
}
