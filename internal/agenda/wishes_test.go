package agenda_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// wishesPolicy has what preferences change, and a cap that they don't.
const wishesPolicy = `version: 1
time_zone: Europe/Berlin
windows:
  night: {closed: [{from: "22:00", to: "08:00"}]}
  siesta: {closed: [{from: "13:00", to: "16:00"}]}
quiet_hours: {window: night, spread: 20m}
user_cap: {limits: [{max: 6, per: 6h}]}
categories:
  default: {}
  chat: {limits: [{max: 4, per: day}], min_gap: 1m, max_defer: 30d}
  news: {limits: [{max: 2, per: 1h}], max_defer: 30d}
`

// wishes is a world whose users change their minds, and the checker that runs beside it.
type wishes struct {
	*world
	rand    *rand.Rand
	rules   *effective.Policy
	wanted  map[string]notification.Preferences
	waiting []agenda.Entry // and what has ended
	got     map[string]int // deliveries by id
	source  *deliveries
	checker *invariant.Checker
}

// deliveries are what was admitted, for the checker.
type deliveries []invariant.Admission

// Admissions implements [invariant.Source].
func (d *deliveries) Admissions(_ context.Context, _, _ throttle.Micros, _ func(string) time.Duration,
	do func(invariant.Admission) error,
) error {
	ordered := slices.SortedFunc(slices.Values(*d), func(a, b invariant.Admission) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.At, b.At))
	})
	for _, m := range ordered {
		if err := do(m); err != nil {
			return err
		}
	}
	return nil
}

// EachOpen implements [invariant.Source].
func (*deliveries) EachOpen(context.Context, time.Time, func(invariant.Open) error) error { return nil }

// newWishes makes a world in which clocks are switched on the second day. The agendas decide by what decides gives of
// the settings in effect.
func newWishes(t *testing.T, client *redis.Client, seed uint64,
	decides func(*effective.Policy) *effective.Policy,
) *wishes {
	t.Helper()
	parsed, err := policy.Parse("policy.yaml", []byte(wishesPolicy))
	if err != nil {
		t.Fatal(err)
	}
	w := &wishes{
		world: newWorld(t, t, client, agenda.Settings{}), rand: rand.New(rand.NewPCG(seed, 0)), source: &deliveries{},
		wanted: map[string]notification.Preferences{}, got: map[string]int{},
		rules: effective.New(func() *policy.Policy { return parsed }),
	}
	w.now = time.Date(2026, 10, 24, 7, 0, 0, 0, time.UTC)
	w.setClock()
	w.rules.Own = preferences.NewMemory()
	w.rules.Now = func() time.Time { return w.now }
	in := decides(w.rules)
	w.store, err = agenda.New(client, agenda.Config{
		Partitions: partitions, Settings: in.Settings, Personal: in.Personal, Lease: lease,
		Process: "worker",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.UseClockKey(); err != nil {
		t.Fatal(err)
	}
	w.checker = invariant.New(invariant.Config{
		Source: w.source, Window: w.rules.LongestWindow, InForce: w.rules.Since, Now: w.rules.Now,
		Limits: func(user, category string) invariant.Limits {
			s := w.rules.Settings(user, category)
			return invariant.Limits{Plan: s.Plan, BypassFrom: s.BypassFrom}
		},
		Hours: func(m invariant.Admission) invariant.Hours {
			return invariant.Hours(w.rules.HoursAt(m.UserID, m.Category, m.Zone, m.At))
		},
		Period: func(m invariant.Admission, p throttle.Period) throttle.Interval {
			return w.rules.PeriodAt(m.UserID, m.Zone, p, m.At)
		},
		Version: parsed.Version,
		Cleared: func(context.Context, time.Time) (map[string]time.Time, error) { return nil, nil },
		Found:   func(int, int) {}, Log: slog.New(slog.DiscardHandler),
	})
	return w
}

// oneOf picks one.
func oneOf[T any](w *wishes, of ...T) T { return of[w.rand.IntN(len(of))] }

// change has a user want something else, and decides again what waits, as the follower does.
func (w *wishes) change(t *testing.T, user string) {
	t.Helper()
	p := w.wanted[user]
	switch w.rand.IntN(5) {
	case 0:
		p.TimeZone = oneOf(w, "", "Asia/Kathmandu", "America/Havana", "Europe/London", "Australia/Lord_Howe")
	case 1:
		p.QuietHours = json.RawMessage(oneOf(w, "", `{"off": true}`, `{"window": "siesta"}`,
			`{"closed": [{"days": ["sat", "sun"], "from": "00:00", "to": "12:00"}]}`))
	case 2:
		p.QuietUntil = oneOf(w, time.Time{}, w.now.Add(time.Duration(w.rand.IntN(10*3600))*time.Second))
	case 3:
		p.Limits = oneOf(w, nil, map[string]json.RawMessage{"chat": []byte(`{"limits": [{"max": 1, "per": "2h"}]}`)},
			map[string]json.RawMessage{"news": []byte(`{"limits": [{"max": 1, "per": "day"}], "min_gap": "5m"}`)})
	case 4:
		p.OptOutCategories = oneOf(w, nil, []string{"news"})
	}
	w.wanted[user] = p
	w.checker.Exempt(user)
	if err := w.rules.Own.Set(user, &p); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.waiting { // the store does this, see package redis
		if e.UserID == user && p.OptsOut(e.Category, "") && !w.state(e.ID).Status.Ended() {
			if err := w.store.CancelIn(t.Context(), w.store.PartitionOf(user), e.ID, "opted_out"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.store.WakePersonal(t.Context(), w.store.PartitionOf(user), user); err != nil {
		t.Fatal(err)
	}
}

// deliver notes what was admitted.
func (w *wishes) deliver(grants []*dispatch.Grant) {
	for _, g := range grants {
		w.got[g.Notification.ID]++
		*w.source = append(*w.source, invariant.Admission{
			ID: g.Notification.ID, UserID: g.UserID, Category: g.Category, At: throttle.MicrosOf(g.AdmittedAt),
			Priority: notification.PriorityNormal, Version: g.Basis.PolicyVersion, Zone: g.Basis.Zone,
		})
	}
}

// play plays four days, and then until nothing waits any more, with the checker at work all the time.
func (w *wishes) play(t *testing.T) invariant.Result {
	t.Helper()
	for end := w.now.AddDate(0, 0, 4); w.now.Before(end); {
		at := w.now.Add(time.Duration(w.rand.IntN(100*60)) * time.Second)
		w.deliver(w.playUntil(at))
		w.advance(max(0, at.Sub(w.now)))
		if user := oneOf(w, "ada", "ben", "cid"); w.rand.IntN(3) == 0 {
			w.change(t, user)
		} else if e := (agenda.Entry{UserID: user, Category: oneOf(w, "chat", "news")}); !slices.Contains(
			w.wanted[user].OptOutCategories, e.Category) {
			e.ID = w.accept(e)
			w.waiting = append(w.waiting, e)
		}
		if err := w.checker.Round(t.Context(), w.now); err != nil {
			t.Fatal(err)
		}
	}
	w.deliver(w.drain())
	if err := w.checker.Round(t.Context(), w.now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return w.checker.Latest()
}

// Users move to other zones, change their quiet hours and limits, want quiet for a while and opt out, at random moments
// while something waits for them: nothing is admitted that was not to be, and each notification ends once.
func TestPreferencesChangeAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWishes(t, redistest.Client(t), seed, func(p *effective.Policy) *effective.Policy { return p })
			result := w.play(t)
			if result.Violations > 0 || result.Unchecked*2 > int64(len(*w.source)) {
				t.Errorf("%d violations in %d admissions, %d of them not checked", result.Violations, len(*w.source),
					result.Unchecked)
			}
			for _, e := range w.waiting {
				status := w.state(e.ID).Status
				if ends := w.got[e.ID]; status == notification.StatusDelivered && ends != 1 ||
					status == notification.StatusCancelled && ends != 0 || !status.Ended() {
					t.Errorf("%s of %s is %s, and was delivered %d times", e.ID, e.UserID, status, ends)
				}
			}
			if left := w.leftovers(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// Agendas that do not look at preferences are found out.
func TestForgottenPreferencesAreFound(t *testing.T) {
	t.Parallel()
	w := newWishes(t, redistest.Client(t), 1, func(p *effective.Policy) *effective.Policy {
		forgets := p.Under(p.Current())
		forgets.Own = nil
		return forgets
	})
	if result := w.play(t); result.Violations == 0 {
		t.Errorf("no violation is found: %+v", result)
	}
}
