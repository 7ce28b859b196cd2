package invariant_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// store is a source of what a test wrote into it.
type store struct {
	admissions []invariant.Admission
	open       []invariant.Open
	away       error
}

// Admissions implements [invariant.Source].
func (s *store) Admissions(_ context.Context, _, _ throttle.Micros, _ func(string) time.Duration,
	do func(invariant.Admission) error,
) error {
	ordered := slices.SortedFunc(slices.Values(s.admissions), func(a, b invariant.Admission) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.At, b.At))
	})
	for _, m := range ordered {
		if err := do(m); err != nil {
			return err
		}
	}
	return s.away
}

// EachOpen implements [invariant.Source].
func (s *store) EachOpen(_ context.Context, _ time.Time, do func(invariant.Open) error) error {
	for _, o := range s.open {
		if err := do(o); err != nil {
			return err
		}
	}
	return s.away
}

// admit adds admissions of ada in chat, each so long after the same moment, which is now.
func (s *store) admit(after ...time.Duration) {
	now := throttle.MicrosOf(began)
	for i, d := range after {
		s.admissions = append(s.admissions, invariant.Admission{
			ID: string(rune('a' + i)), UserID: "ada", Category: "chat", At: now + throttle.Micros(d.Microseconds()),
			Priority: notification.PriorityNormal,
		})
	}
}

// began is when the checkers of the tests begin. Their clock stands still, so that a slow machine lets no time pass.
var began = time.Now()

// config is that of a checker without anything special, which logs to text if that is not nil.
func config(s *store, text *bytes.Buffer) invariant.Config {
	cfg := invariant.Config{
		Source:  s,
		Limits:  func(string, string) invariant.Limits { return invariant.Limits{} },
		Window:  func(string) time.Duration { return time.Hour },
		InForce: func() time.Time { return time.Time{} },
		Cleared: clearedOf(),
		Paused:  func(invariant.Open) bool { return false },
		Found:   func(int, int) {},
		Now:     func() time.Time { return began },
		Log:     slog.New(slog.DiscardHandler),
	}
	if text != nil {
		cfg.Log = slog.New(slog.NewTextHandler(text, nil))
	}
	return cfg
}

// clearedOf returns the users whose windows were cleared.
func clearedOf(users ...string) func(context.Context, time.Time) (map[string]time.Time, error) {
	return func(context.Context, time.Time) (map[string]time.Time, error) {
		cleared := map[string]time.Time{}
		for _, user := range users {
			cleared[user] = began.Add(time.Hour)
		}
		return cleared, nil
	}
}

// round checks a store once, an hour from now, and returns what the checker found and logged.
func round(t *testing.T, s *store, change func(*invariant.Config),
	limits invariant.Limits,
) (result invariant.Result, log string) {
	t.Helper()
	var text bytes.Buffer
	cfg := config(s, &text)
	cfg.Limits = func(string, string) invariant.Limits { return limits }
	if change != nil {
		change(&cfg)
	}
	checker := invariant.New(cfg)
	if err := checker.Round(t.Context(), began.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return checker.Latest(), text.String()
}

// slow is a store that learns of each admission when its delivery has ended, so long after it.
type slow struct {
	store

	took time.Duration
	now  time.Time
}

// Admissions implements [invariant.Source].
func (s *slow) Admissions(ctx context.Context, after, until throttle.Micros, window func(string) time.Duration,
	do func(invariant.Admission) error,
) error {
	return s.store.Admissions(ctx, after, until, window, func(m invariant.Admission) error {
		if m.At > until || m.At.Time().Add(s.took).After(s.now) {
			return nil
		}
		return do(m)
	})
}

// A delivery takes a minute at most, and its result is written for half a minute more while the store is away. What
// ends so late is checked all the same.
func TestSlowDeliveriesAreChecked(t *testing.T) {
	t.Parallel()
	s := &slow{took: 90 * time.Second}
	s.admit(time.Second, 61*time.Second)
	cfg := config(&s.store, nil)
	limits := limitsOf(throttle.Rolling, throttle.Rule{Max: 1, Per: time.Hour})
	cfg.Source, cfg.Limits = s, func(string, string) invariant.Limits { return limits }
	checker := invariant.New(cfg)
	for minute := range 10 {
		s.now = began.Add(time.Duration(minute) * time.Minute)
		if err := checker.Round(t.Context(), s.now); err != nil {
			t.Fatal(err)
		}
	}
	if found := checker.Latest().Violations; found != 1 {
		t.Errorf("%d violations, want 1", found)
	}
}

func limitsOf(algorithm throttle.Algorithm, rules ...throttle.Rule) invariant.Limits {
	return invariant.Limits{Plan: throttle.Plan{Algorithm: algorithm, Rules: rules}, BypassFrom: 1}
}

// An admission that some limit seems to forbid is no violation when it bypassed the limit, or the limit was another.
func TestWhatIsNoViolation(t *testing.T) {
	t.Parallel()
	limits := limitsOf(throttle.Rolling, throttle.Rule{Max: 1, Per: time.Minute})
	at := []time.Duration{20 * time.Second, 21 * time.Second}
	for name, change := range map[string]func(*invariant.Config, *store){
		"bypass":          func(_ *invariant.Config, s *store) { s.admissions[1].Priority = 1 },
		"another user":    func(_ *invariant.Config, s *store) { s.admissions[1].UserID = "ben" },
		"a category more": func(_ *invariant.Config, s *store) { s.admissions[1].Category = "news" },
		"new limits": func(c *invariant.Config, _ *store) {
			changed := began.Add(10 * time.Second)
			c.InForce = func() time.Time { return changed }
		},
		"cleared": func(c *invariant.Config, _ *store) {
			c.Cleared = clearedOf("ada")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &store{}
			s.admit(at...)
			if result, log := round(t, s, func(c *invariant.Config) { change(c, s) }, limits); result.Violations != 0 {
				t.Errorf("counts as a violation: %s", log)
			}
		})
	}
	s := &store{}
	s.admit(at...)
	if result, _ := round(t, s, nil, limits); result.Violations != 1 {
		t.Errorf("without any of these reasons %d are found, want 1", result.Violations)
	}
}

// A user's windows that were cleared, or whose limits have changed, are unknown for as long as that user's windows look
// back, however far those of others do.
func TestOneUsersWindowsSayNothingOfAnothers(t *testing.T) {
	t.Parallel()
	s := &store{}
	s.admit(20*time.Second, 21*time.Second, 20*time.Second, 21*time.Second)
	s.admissions[2].UserID, s.admissions[3].UserID = "wide", "wide"
	limits := limitsOf(throttle.Rolling, throttle.Rule{Max: 1, Per: time.Minute})
	result, log := round(t, s, func(c *invariant.Config) {
		c.Window = func(userID string) time.Duration {
			if userID == "wide" {
				return 366 * 24 * time.Hour
			}
			return time.Hour
		}
		c.Cleared = func(_ context.Context, since time.Time) (map[string]time.Time, error) {
			longAgo := began.Add(-200 * 24 * time.Hour)
			if !longAgo.After(since) {
				return nil, nil
			}
			return map[string]time.Time{"ada": longAgo, "wide": longAgo}, nil
		}
	}, limits)
	if result.Violations != 1 || result.Unchecked != 2 {
		t.Errorf("%d violations and %d unchecked, want ada's one and two of the wide one: %s", result.Violations,
			result.Unchecked, log)
	}
}

func TestUnended(t *testing.T) {
	t.Parallel()
	now := began.Add(time.Hour)
	for name, c := range map[string]struct {
		open invariant.Open
		want int64
	}{
		"young":   {open: invariant.Open{Since: now.Add(-10 * time.Minute)}, want: 0},
		"too old": {open: invariant.Open{Since: now.Add(-16 * time.Minute)}, want: 1},
		"expired": {
			open: invariant.Open{Since: now.Add(-7 * time.Minute), ExpiresAt: now.Add(-6 * time.Minute)}, want: 1,
		},
		"expires later on":    {open: invariant.Open{Since: now.Add(-7 * time.Minute), ExpiresAt: now}, want: 0},
		"paused":              {open: invariant.Open{Since: now.Add(-16 * time.Minute), Channel: "paused"}, want: 0},
		"over a slow channel": {open: invariant.Open{Since: now.Add(-16 * time.Minute), Channel: "slow"}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.open.ID = "n1"
			change := func(cfg *invariant.Config) {
				cfg.Paused = func(o invariant.Open) bool { return o.Channel == "paused" }
				cfg.MaxLife = func(o invariant.Open) time.Duration {
					if o.Channel == "slow" {
						return time.Hour
					}
					return 10 * time.Minute
				}
			}
			source := &store{open: []invariant.Open{c.open}}
			if result, _ := round(t, source, change, invariant.Limits{}); result.Unended != c.want {
				t.Errorf("%d unended, want %d", result.Unended, c.want)
			}
		})
	}
}

// A store that can't be read does not count as checked.
func TestNoResultWithoutTheStore(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	checker := invariant.New(invariant.Config{
		Source:  &store{away: away},
		Window:  func(string) time.Duration { return time.Hour },
		InForce: func() time.Time { return time.Time{} },
		Found:   func(int, int) { t.Error("it reports a round") },
		Log:     slog.New(slog.DiscardHandler),
	})
	if err := checker.Round(t.Context(),
		began.Add(time.Hour)); !errors.Is(err, away) || !checker.Latest().At.IsZero() {
		t.Errorf("returns %v, the result is %+v", err, checker.Latest())
	}
}

// A user who changed their own limits is left out until the windows from before the change have passed.
func TestChangedLimits(t *testing.T) {
	t.Parallel()
	s := &store{}
	s.admit(time.Second, 2*time.Second)
	var found int
	limits := limitsOf(throttle.Rolling, throttle.Rule{Max: 1, Per: time.Minute})
	cfg := invariant.Config{
		Source:  s,
		Limits:  func(string, string) invariant.Limits { return limits },
		Window:  func(string) time.Duration { return time.Minute },
		InForce: func() time.Time { return time.Time{} },
		Cleared: func(context.Context, time.Time) (map[string]time.Time, error) { return nil, errors.ErrUnsupported },
		Found:   func(v, _ int) { found = v },
		Log:     slog.New(slog.DiscardHandler),
	}
	checker := invariant.New(cfg)
	if err := checker.Round(t.Context(), began.Add(time.Hour)); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("returns %v", err)
	}
	cfg.Cleared = clearedOf()
	ok := invariant.New(cfg)
	ok.Exempt("ada")
	if err := ok.Round(t.Context(), began.Add(time.Hour)); err != nil || found != 0 {
		t.Errorf("%d found, %v", found, err)
	}
}

// Windows are noted as cleared a moment before they are. So the checker asks for what was noted a while before
// the earliest admission that a window of its round holds.
func TestWindowsClearedBeforeTheRoundCount(t *testing.T) {
	t.Parallel()
	asked, s := time.Now(), &store{}
	s.admit(time.Second)
	cfg := config(s, nil)
	cfg.Cleared = func(_ context.Context, since time.Time) (map[string]time.Time, error) {
		asked = since
		return nil, nil
	}
	if err := invariant.New(cfg).Round(t.Context(), began.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if earliest := began.Add(-cfg.Window("")); asked.After(earliest.Add(-10 * time.Second)) {
		t.Errorf("it asks since %s for windows from %s on", asked, earliest)
	}
}
