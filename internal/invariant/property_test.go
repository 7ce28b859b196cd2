package invariant_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// life is what a random user has, and got, within some weeks in which clocks are switched.
type life struct {
	begin, end throttle.Micros
	zones      []string
	rules      map[string][]throttle.Rule // by category; caps are in each
	hours      map[string]invariant.Hours // by zone
	boundaries map[string]throttle.Boundaries

	admitted []invariant.Admission
	// bound are the places of those that some rule or the hours held back: a µs sooner they were violations.
	bound []int
}

// randomLife plays the recurrence: each of the user's notifications goes at the earliest moment that every rule and the
// hours of the user's zone allow. The zone changes on the way.
func randomLife(t *rapid.T) *life {
	begin := time.Date(2026, 3, 1+rapid.IntRange(0, 25).Draw(t, "day"), rapid.IntRange(0, 23).Draw(t, "hour"), 0, 0, 0,
		time.UTC)
	l := &life{
		begin: throttle.MicrosOf(begin), hours: map[string]invariant.Hours{},
		boundaries: map[string]throttle.Boundaries{}, rules: map[string][]throttle.Rule{},
		zones: rapid.SampledFrom([][]string{
			{"Europe/Berlin"}, {"America/Havana", "Asia/Kathmandu"}, {"Australia/Lord_Howe", "Europe/Berlin"},
		}).Draw(t, "zones"),
	}
	caps := randomCaps(t)
	for _, category := range []string{"chat", "news"} {
		l.rules[category] = slices.Concat(randomRules(t, throttle.KindLimit, ""), caps)
	}
	l.closeHours(t)
	now := l.begin
	for range rapid.IntRange(1, 15).Draw(t, "notifications") {
		now = now.Add(time.Duration(rapid.Int64Range(0, int64(9*time.Hour)).Draw(t, "pause")))
		now = l.admit(t, now)
	}
	l.end = now
	return l
}

// randomRules makes rules that count in one log.
func randomRules(t *rapid.T, kind throttle.Kind, named string) (rules []throttle.Rule) {
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		rule := throttle.Rule{
			Max: rapid.IntRange(1, 4).Draw(t, "max"), Kind: kind, Cap: named,
			Per: time.Duration(rapid.IntRange(1, 30*3600).Draw(t, "per")) * time.Second,
		}
		if rapid.Bool().Draw(t, "calendar") {
			rule.Period = throttle.Period(rapid.IntRange(1, 3).Draw(t, "period"))
			rule.Per = rule.Period.Longest()
		}
		if rule.Max > 1 && rapid.Bool().Draw(t, "reserve") {
			rule.Reserve[rapid.IntRange(0, 2).Draw(t, "for")] = 1
		}
		if named != "" {
			rule.Channels = "fcm apns"
		}
		rules = append(rules, rule)
	}
	if kind == throttle.KindLimit && rapid.Bool().Draw(t, "gap") {
		rules = append(rules, throttle.Rule{Max: 1, Per: time.Minute, Kind: throttle.KindGap})
	}
	return rules
}

func randomCaps(t *rapid.T) []throttle.Rule {
	return slices.Concat(randomRules(t, throttle.KindCap, ""), randomRules(t, throttle.KindNamed, "marketing"))
}

// firstDay is before every life begins.
var firstDay = time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)

// place is what the calendar of a zone says of a year and more.
type place struct {
	nights     []throttle.Closed
	boundaries throttle.Boundaries
}

// places are worked out once.
var places = sync.OnceValue(func() map[string]place {
	all := map[string]place{}
	begin := throttle.MicrosOf(firstDay)
	for _, name := range []string{"Europe/Berlin", "America/Havana", "Asia/Kathmandu", "Australia/Lord_Howe"} {
		zone, err := calendar.ParseZone(name)
		if err != nil {
			panic(err)
		}
		of := place{nights: []throttle.Closed{nil}}
		for _, night := range []calendar.Range{{From: 22 * 60, To: 8 * 60}, {From: 21*60 + 13, To: 2*60 + 30}} {
			var closed throttle.Closed
			for from := begin; len(closed) < 400; {
				var some throttle.Closed
				some, from = calendar.Window{Closed: []calendar.Range{night}}.Next(from, zone)
				closed = append(closed, some...)
			}
			of.nights = append(of.nights, closed)
		}
		for i, n := range []int{500, 80, 20} {
			of.boundaries[i] = calendar.Bounds(throttle.Period(i+1), begin, zone, n)
		}
		all[name] = of
	}
	return all
})

// closeHours closes the nights of each zone.
func (l *life) closeHours(t *rapid.T) {
	hours := invariant.Hours{
		Spread:     time.Duration(rapid.IntRange(0, 60).Draw(t, "spread")) * time.Minute,
		ExemptFrom: notification.PriorityCritical,
	}
	if rapid.Bool().Draw(t, "quiet until") {
		hours.Until = l.begin.Add(time.Duration(rapid.IntRange(1, 72).Draw(t, "until")) * time.Hour)
	}
	night := rapid.IntRange(0, 2).Draw(t, "night")
	for _, name := range l.zones {
		hours.Closed = places()[name].nights[night]
		l.hours[name], l.boundaries[name] = hours, places()[name].boundaries
	}
}

// admit admits one more at the earliest moment, and gives it.
func (l *life) admit(t *rapid.T, now throttle.Micros) throttle.Micros {
	m := invariant.Admission{
		ID: fmt.Sprint(len(l.admitted)), UserID: "ada", Version: "v",
		Category: rapid.SampledFrom([]string{"chat", "news"}).Draw(t, "category"),
		Channel:  rapid.SampledFrom([]string{"fcm", "apns:shop", "log"}).Draw(t, "channel"),
		Zone:     rapid.SampledFrom(l.zones).Draw(t, "zone"),
		Priority: notification.Priority(rapid.IntRange(2, 4).Draw(t, "priority")),
	}
	logs := map[throttle.Kind]*throttle.Log{}
	for _, rule := range l.rules[m.Category] {
		kind := rule.Kind
		if kind == throttle.KindGap {
			kind = throttle.KindLimit // they count in one log
		}
		if rule.Kind == throttle.KindNamed && !rule.CountsOn(m.Channel) {
			continue
		}
		if logs[kind] == nil {
			logs[kind] = &throttle.Log{
				Priority: int(m.Priority), Boundaries: l.boundaries[m.Zone], Admitted: l.countedBy(rule, m.Category),
			}
		}
		logs[kind].Rules = append(logs[kind].Rules, rule)
	}
	var all []throttle.Log
	for _, log := range logs {
		all = append(all, *log)
	}
	hours := l.hours[m.Zone]
	closed := throttle.Plan{Closed: hours.Closed, Spread: hours.Spread}.For(m.UserID).Closed
	at, _ := throttle.Next(max(now, hours.Until), closed, all...)
	if m.At = at; at > now {
		l.bound = append(l.bound, len(l.admitted))
	}
	l.admitted = append(l.admitted, m)
	return at
}

// countedBy are the moments of the admissions that a rule counts for a category.
func (l *life) countedBy(rule throttle.Rule, category string) (at []throttle.Micros) {
	for _, m := range l.admitted {
		if rule.Kind == throttle.KindCap || rule.Kind == throttle.KindNamed && rule.CountsOn(m.Channel) ||
			rule.Kind < throttle.KindCap && m.Category == category {
			at = append(at, m.At)
		}
	}
	return at
}

// check has a checker go through the life in a round for each day, as one that runs for weeks does.
func (l *life) check(t *rapid.T) invariant.Result {
	now := l.begin.Time()
	checker := invariant.New(invariant.Config{
		Source: &store{admissions: slices.Clone(l.admitted)}, Log: slog.New(slog.DiscardHandler),
		Limits: func(_, category string) invariant.Limits {
			return invariant.Limits{
				Plan: throttle.Plan{Rules: l.rules[category]}, BypassFrom: notification.PriorityCritical,
			}
		},
		Hours: func(m invariant.Admission) invariant.Hours { return l.hours[m.Zone] },
		Period: func(m invariant.Admission, p throttle.Period) (period throttle.Interval) {
			for _, begins := range l.boundaries[m.Zone][p-1] {
				if period = (throttle.Interval{From: period.Until, Until: begins}); begins > m.At {
					return period
				}
			}
			return period
		},
		Window: func(string) time.Duration { return throttle.Month.Longest() }, Version: func() string { return "v" }, InForce: func() time.Time { return now },
		Cleared: clearedOf(), Found: func(int, int) {}, Now: func() time.Time { return now.Add(-time.Second) },
		Behind: time.Microsecond,
	})
	for end := l.end.Time(); now.Before(end.Add(24 * time.Hour)); {
		now = now.Add(24 * time.Hour)
		if err := checker.Round(context.Background(), now); err != nil {
			t.Fatal(err)
		}
	}
	return checker.Latest()
}

// Whatever limits and hours a user has: in what the recurrence allows the checker finds nothing, and each that was held
// back would be a violation a microsecond sooner.
func TestLegalHistoriesAreClean(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := randomLife(t)
		if result := l.check(t); result.Violations != 0 || result.Unchecked != 0 {
			t.Fatalf("%d violations and %d unchecked in %+v", result.Violations, result.Unchecked, l.admitted)
		}
		if len(l.bound) == 0 {
			return
		}
		sooner := rapid.SampledFrom(l.bound).Draw(t, "sooner")
		l.admitted[sooner].At--
		if result := l.check(t); result.Violations == 0 {
			t.Fatalf("none is found, though number %d went a microsecond too early: %+v", sooner, l.admitted)
		}
	})
}
