package rebuild

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/store/postgres/stream"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// wantedLogs are the logs that a user should have, by their names in pacer.cleared.
type wantedLogs struct {
	userID     string
	categories map[string]bool // of the user's admissions
	logs       map[string]*wantedLog
}

// wantedLog is what a log should hold: moments, oldest first, as far back as its rules can see. Counters hold none.
type wantedLog struct {
	rules   []throttle.Rule
	moments []throttle.Micros
}

// add adds admissions, except to the logs from which they were cleared.
func (w *wantedLogs) add(v *verifier, p stream.Page) {
	for i := range p.Admitted {
		a := &p.Admitted[i]
		w.categories[a.Category] = true
		plan := v.agendas.SettingsOf(a.UserID, a.Category).Plan
		if plan.Algorithm.KeepsLog() {
			w.addTo(stream.CategoryLog(a.Category), plan.CategoryRules(), a.At, p.Cleared)
		}
		w.addTo(stream.CapLog(""), plan.CapRules(), a.At, p.Cleared)
		for _, rules := range plan.NamedCaps() {
			if rules[0].CountsOn(a.Channel) {
				w.addTo(stream.CapLog(rules[0].Cap), rules, a.At, p.Cleared)
			}
		}
	}
}

func (w *wantedLogs) addTo(name string, rules []throttle.Rule, at throttle.Micros, cleared stream.Cleared) {
	if len(rules) == 0 || cleared.Has(name, at) {
		return
	}
	log := w.logs[name]
	if log == nil {
		log = &wantedLog{rules: rules}
		w.logs[name] = log
	}
	log.moments = append(log.moments, at)
	most := slices.MaxFunc(rules, func(x, y throttle.Rule) int { return x.Max - y.Max }).Max
	if n := len(log.moments); n > 4*most+windowPart {
		log.moments = append(log.moments[:0], log.moments[n-2*most:]...)
	}
}

// windowDoubts are the differences in the windows of one user.
type windowDoubts struct {
	userID      string
	differences []Difference
}

// verifyWindows finds admissions that are missing in a log of a category or of a cap. It keeps the logs of one user at
// a time in memory.
func (v *verifier) verifyWindows(ctx context.Context) error {
	now, err := v.agendas.Now(ctx)
	if err != nil {
		return err
	}
	missing := doubts[windowDoubts]{
		look: func(ctx context.Context, users []windowDoubts) ([]windowDoubts, error) {
			return v.windowsAgain(ctx, users, now)
		},
		found: func(w windowDoubts) error {
			for _, d := range w.differences {
				if err := v.found(d); err != nil {
					return err
				}
			}
			return nil
		},
	}
	all := stream.Everyone(v.db, now, v.windows)
	all.InFlight = slices.Clone(v.inFlight)
	if err := v.eachWanted(ctx, all, func(w *wantedLogs) error {
		differences, err := v.differences(ctx, w, nil)
		if err != nil || len(differences) == 0 {
			return err
		}
		return missing.add(ctx, windowDoubts{userID: w.userID})
	}); err != nil {
		return err
	}
	return missing.settle(ctx)
}

// eachWanted calls do with the logs that each user should have.
func (v *verifier) eachWanted(ctx context.Context, all *stream.Stream, do func(*wantedLogs) error) error {
	var w *wantedLogs
	return all.Each(ctx, func(p stream.Page) error {
		if w == nil {
			w = &wantedLogs{userID: p.UserID, categories: map[string]bool{}, logs: map[string]*wantedLog{}}
		}
		if w.add(v, p); !p.Last {
			return nil
		}
		whole := w
		w = nil
		return do(whole)
	})
}

// windowsAgain compares the windows of some users again. It reads their admissions before and after it looks at Redis:
// Postgres learns first that an admission does not count, so one that it has at both times must be counted in Redis. It
// learns first of a clear, too.
func (v *verifier) windowsAgain(ctx context.Context, users []windowDoubts, now time.Time) ([]windowDoubts, error) {
	var still []windowDoubts
	for _, user := range users {
		before, err := v.wantedOf(ctx, user.userID, now)
		if err != nil {
			return nil, err
		}
		user.differences, err = v.differences(ctx, before, func() (*wantedLogs, error) {
			return v.wantedOf(ctx, user.userID, now)
		})
		if err != nil {
			return nil, err
		}
		if len(user.differences) > 0 {
			still = append(still, user)
		}
	}
	return still, nil
}

// wantedOf reads the logs that one user should have by now.
func (v *verifier) wantedOf(ctx context.Context, userID string, now time.Time) (w *wantedLogs, err error) {
	one := stream.Everyone(v.db, now, v.windows)
	one.Users = func(context.Context, string) ([]string, error) { return []string{userID}, nil }
	var ids []string
	for i := range v.inFlight {
		if v.inFlight[i].UserID == userID {
			ids = append(ids, v.inFlight[i].ID)
		}
	}
	if len(ids) > 0 {
		rows, err := stream.LookUp(ctx, v.db, ids, false)
		if err != nil {
			return nil, err
		}
		one.InFlight = stream.InFlight(rows)
	}
	w = &wantedLogs{userID: userID}
	err = v.eachWanted(ctx, one, func(found *wantedLogs) error { w = found; return nil })
	return w, err
}

// differences are the logs that lack admissions which a user should have, and has also after the logs were read.
func (v *verifier) differences(ctx context.Context, w *wantedLogs, after func() (*wantedLogs, error)) (
	differences []Difference, err error,
) {
	in, err := v.agendas.WindowsOf(ctx, w.userID, slices.Sorted(maps.Keys(w.categories)))
	if err != nil {
		return nil, err
	}
	read, err := v.agendas.Now(ctx)
	if err != nil {
		return nil, err
	}
	still := w
	if after != nil {
		if still, err = after(); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.logs)) {
		log, kept := w.logs[name], still.logs[name]
		if kept == nil {
			continue
		}
		wanted := slices.DeleteFunc(log.moments, func(at throttle.Micros) bool {
			_, found := slices.BinarySearch(kept.moments, at)
			return !found
		})
		of, held := "user_cap", in.Cap
		if kind, name, _ := strings.Cut(name, ":"); kind == "category" {
			of, held = name, in.Categories[name]
		} else if name != "" {
			of, held = "cap "+name, in.Named[name]
		}
		if missing := uncounted(log.rules, wanted, held, throttle.MicrosOf(read)); missing > 0 {
			differences = append(differences, Difference{
				What: DiffWindow, ID: of + ":" + w.userID,
				Detail: plural.Of(missing, "admission is", "admissions are") + " not counted in Redis",
			})
		}
	}
	return differences, nil
}

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
