package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// admissions are those of one user by category, oldest first.
type admissions map[string][]agenda.Admission

func (a admissions) add(one counted) {
	a[one.category] = append(a[one.category],
		agenda.Admission{At: throttle.Micros(one.at), Channel: notification.Channel(one.channel)})
}

// momentsOf are the moments of some admissions that a rule counts.
func momentsOf(rule throttle.Rule, admitted []agenda.Admission) []throttle.Micros {
	var moments []throttle.Micros
	for _, a := range admitted {
		if rule.CountsOn(string(a.Channel)) {
			moments = append(moments, a.At)
		}
	}
	return moments
}

// windowDoubts are the differences in the windows of one user.
type windowDoubts struct {
	userID      string
	differences []Difference
}

// verifyWindows finds admissions that are missing in a log of a category or of a user cap. Counters hold no moments and
// are not compared. It keeps the admissions of one user at a time in memory.
func (r *Relay) verifyWindows(ctx context.Context, found func(Difference) error) error {
	now, err := r.store.agendas.Now(ctx)
	if err != nil {
		return err
	}
	missing := doubts[windowDoubts]{
		look: func(ctx context.Context, users []windowDoubts) ([]windowDoubts, error) {
			return r.windowsAgain(ctx, users, now)
		},
		found: func(w windowDoubts) error {
			for _, d := range w.differences {
				if err := found(d); err != nil {
					return err
				}
			}
			return nil
		},
	}
	forgotten, err := allCleared(ctx, r.store.pool)
	if err != nil {
		return err
	}
	verify := func(userID string, admitted admissions) error {
		differences, err := r.compareWindows(ctx, userID, admitted, forgotten[userID])
		if err != nil || len(differences) == 0 {
			return err
		}
		return missing.add(ctx, windowDoubts{userID: userID})
	}
	last, admitted := "", admissions{}
	if err := r.eachCounted(ctx, r.store.pool, now, func(a counted) error {
		if a.user != last {
			if err := verify(last, admitted); err != nil {
				return err
			}
			last, admitted = a.user, admissions{}
		}
		admitted.add(a)
		return nil
	}); err != nil {
		return err
	}
	if err := verify(last, admitted); err != nil {
		return err
	}
	return missing.settle(ctx)
}

// windowsAgain compares the windows of some users again. It reads their admissions before and after it looks at Redis:
// Postgres learns first that an admission does not count, so one that it has at both times must be counted in Redis. It
// learns first of a clear, too.
func (r *Relay) windowsAgain(ctx context.Context, users []windowDoubts, now time.Time) ([]windowDoubts, error) {
	var still []windowDoubts
	for _, user := range users {
		before, err := r.admissionsOf(ctx, user.userID, now)
		if err != nil {
			return nil, err
		}
		in, err := r.windowsOf(ctx, user.userID, before)
		if err != nil {
			return nil, err
		}
		after, err := r.admissionsOf(ctx, user.userID, now)
		if err != nil {
			return nil, err
		}
		forgotten, err := clearedOf(ctx, r.store.pool, user.userID)
		if err != nil {
			return nil, err
		}
		user.differences = r.differences(user.userID, before.both(after), in, forgotten)
		if len(user.differences) > 0 {
			still = append(still, user)
		}
	}
	return still, nil
}

// both are the admissions that two readings share.
func (a admissions) both(other admissions) admissions {
	shared := admissions{}
	for category, admitted := range a {
		shared[category] = slices.DeleteFunc(admitted, func(one agenda.Admission) bool {
			return !slices.Contains(other[category], one)
		})
	}
	return shared
}

func (r *Relay) admissionsOf(ctx context.Context, userID string, now time.Time) (admissions, error) {
	users, admitted := []string{userID}, admissions{}
	rows, err := r.store.pool.Query(ctx, windowsOfSQL, users, sinceOf(users, now, r.cfg.Windows))
	if err != nil {
		return nil, describe("read a user's admissions", err)
	}
	return admitted, scanCounted(rows, func(a counted) error { admitted.add(a); return nil })
}

// compareWindows finds the logs of a user that lack admissions.
func (r *Relay) compareWindows(ctx context.Context, userID string, admitted admissions,
	forgotten cleared,
) ([]Difference, error) {
	if len(admitted) == 0 {
		return nil, nil
	}
	in, err := r.windowsOf(ctx, userID, admitted)
	if err != nil {
		return nil, err
	}
	return r.differences(userID, admitted, in, forgotten), nil
}

// windowsIn are a user's logs in Redis, and a moment after they were read.
type windowsIn struct {
	agenda.Windows
	now throttle.Micros
}

// windowsOf reads the logs of the categories in which a user has admissions.
func (r *Relay) windowsOf(ctx context.Context, userID string, admitted admissions) (windowsIn, error) {
	in, err := r.store.agendas.WindowsOf(ctx, userID, slices.Sorted(maps.Keys(admitted)))
	if err != nil {
		return windowsIn{}, err
	}
	now, err := r.store.agendas.Now(ctx)
	return windowsIn{in, throttle.MicrosOf(now)}, err
}

// differences are the logs that lack admissions which were not cleared from them.
func (r *Relay) differences(userID string, admitted admissions, in windowsIn, forgotten cleared) []Difference {
	var differences []Difference
	add := func(name string, missing int) {
		if missing > 0 {
			differences = append(differences, Difference{
				What: DiffWindow, ID: name + ":" + userID,
				Detail: plural.Of(missing, "admission is", "admissions are") + " not counted in Redis",
			})
		}
	}
	var all []throttle.Micros
	var capRules []throttle.Rule
	named, namedRules := map[string][]throttle.Micros{}, map[string][]throttle.Rule{}
	for _, category := range slices.Sorted(maps.Keys(admitted)) {
		moments := momentsOf(throttle.Rule{}, admitted[category])
		all = append(all, moments...)
		plan := r.store.agendas.PlanOf(userID, category)
		capRules = append(capRules, plan.CapRules()...)
		for _, rules := range plan.NamedCaps() {
			name := rules[0].Cap
			named[name] = append(named[name], momentsOf(rules[0], admitted[category])...)
			namedRules[name] = rules
		}
		if plan.Algorithm.KeepsLog() {
			counting := forgotten.from(categoryLog(category), moments)
			add(category, uncounted(plan.CategoryRules(), counting, in.Categories[category], in.now))
		}
	}
	slices.Sort(all)
	add(capName, uncounted(capRules, forgotten.from(capLog(""), all), in.Cap, in.now))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		slices.Sort(named[name])
		counting := forgotten.from(capLog(name), named[name])
		add("cap "+name, uncounted(namedRules[name], counting, in.Named[name], in.now))
	}
	return differences
}

// capName takes the place of the category in the ID of a difference in a user cap.
const capName = "user_cap"

// uncounted counts the admissions that a log lacks and some rule needs: the newest ones within the rule's window.
// admitted and log are oldest first.
func uncounted(rules []throttle.Rule, admitted, log []throttle.Micros, now throttle.Micros) int {
	missing := 0
	for _, rule := range rules {
		held := map[throttle.Micros]int{}
		for _, at := range log {
			held[at]++
		}
		lacks := 0
		for _, at := range admitted[max(0, len(admitted)-rule.Max):] {
			if now.Sub(at) >= rule.Per {
				continue
			}
			if held[at]--; held[at] < 0 {
				lacks++
			}
		}
		missing = max(missing, lacks)
	}
	return missing
}
