package agenda_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// capsOf makes a random cap over all categories, or none, and random named caps. Some count some channels only, some
// count by the day.
func capsOf(r *rand.Rand) (userCap []throttle.Rule, named [][]throttle.Rule) {
	per := func(tenths int) time.Duration { return time.Duration(1+r.IntN(tenths)) * 100 * time.Millisecond }
	if r.IntN(3) > 0 {
		userCap = []throttle.Rule{{Max: 1 + r.IntN(5), Per: per(40), Kind: throttle.KindCap}}
	}
	for _, name := range []string{"marketing", "push", "all"}[:r.IntN(4)] {
		channels := []string{"", "fcm apns", "email"}[r.IntN(3)]
		rules := []throttle.Rule{
			{Max: 1 + r.IntN(4), Per: per(30), Kind: throttle.KindNamed, Cap: name, Channels: channels},
		}
		if r.IntN(3) == 0 {
			rules = append(rules, throttle.Rule{
				Max: 2 + r.IntN(8), Per: throttle.Day.Longest(), Kind: throttle.KindNamed, Cap: name,
				Channels: channels,
				Period:   throttle.Day,
			})
		}
		named = append(named, rules)
	}
	return userCap, named
}

// daysOf makes days that are some seconds long.
func daysOf(r *rand.Rand) (b throttle.Boundaries) {
	for at := throttle.MicrosOf(start); len(b[throttle.Day-1]) < 12; at += throttle.Micros(1+r.IntN(150)) * 100_000 {
		b[throttle.Day-1] = append(b[throttle.Day-1], at)
	}
	return b
}

// planOf makes random limits of a category, under a cap that all categories have or none has, and under some caps with
// names.
func planOf(r *rand.Rand, userCap []throttle.Rule, named [][]throttle.Rule) throttle.Plan {
	plan := throttle.Plan{Algorithm: throttle.Algorithm(max(0, r.IntN(6)-3))}
	per := time.Duration(1+r.IntN(30)) * 100 * time.Millisecond
	if r.IntN(4) > 0 {
		limit := throttle.Rule{Max: 1 + r.IntN(4), Per: per}
		if limit.Max > 1 && plan.Algorithm == throttle.Rolling && r.IntN(3) == 0 {
			limit.Reserve[r.IntN(len(limit.Reserve))] = 1
		}
		plan.Rules = append(plan.Rules, limit)
	}
	if r.IntN(3) == 0 {
		plan.Rules = append(plan.Rules, throttle.Rule{Max: 3 + r.IntN(8), Per: per + 3*time.Second})
	}
	if r.IntN(3) == 0 {
		plan.Rules = append(plan.Rules, throttle.Rule{
			Max: 1, Per: time.Duration(1+r.IntN(8)) * 100 * time.Millisecond, Kind: throttle.KindGap,
		})
	}
	if plan.Algorithm == throttle.Rolling && r.IntN(4) == 0 {
		plan.Rules = append(plan.Rules, throttle.Rule{
			Max: 2 + r.IntN(6), Per: throttle.Day.Longest(), Period: throttle.Day,
		})
	}
	plan.Rules = append(plan.Rules, userCap...)
	for _, rules := range named {
		if r.IntN(3) > 0 {
			plan.Rules = append(plan.Rules, rules...)
		}
	}
	if r.IntN(2) == 0 {
		at := throttle.MicrosOf(start)
		for range 1 + r.IntN(4) {
			from := at + throttle.Micros(1+r.IntN(50))*100_000
			at = from + throttle.Micros(1+r.IntN(30))*100_000
			plan.Closed = append(plan.Closed, throttle.Interval{From: from, Until: at})
		}
		plan.Spread = time.Duration(r.IntN(2)) * time.Second
		// Shortly before the others, a slot of theirs would be granted ahead, and something more urgent come at its
		// moment.
		if plan.For("ada").Closed[0].Until%100_000 > 80_000 {
			plan.Spread = 0
		}
	}
	return plan
}

// channelOf is the channel of an entry that has one.
func channelOf(e agenda.Entry) notification.Channel {
	return notification.Channel(strings.TrimSuffix(strings.TrimPrefix(e.Payload, `{"c":"`), `"}`))
}

// promises asks when entries go, of which the first have been accepted: just now, those that are not in their backlogs.
func (w *world) promises(entries []agenda.Entry, accepted int) []notification.Promise {
	w.t.Helper()
	var requests []notification.PromiseRequest
	for i, e := range entries {
		n := &notification.Notification{
			ID: e.ID, UserID: e.UserID, Category: e.Category, Priority: e.Priority, SendAt: e.SendAt,
			ExpiresAt: e.ExpiresAt, Channel: channelOf(e), CollapseKey: e.CollapseKey,
			Arrival: 1_000_000 + int64(i),
		}
		requests = append(requests, notification.PromiseRequest{Accepted: i < accepted, Notification: n})
	}
	promises, err := outlook.Of(w.store).Promises(w.test.Context(), requests)
	if err != nil {
		w.t.Fatalf("ask when %d notifications go: %v", len(entries), err)
	}
	return promises
}

// waitsIn are the categories in which something waits.
func (w *world) waitsIn() (categories []string) {
	w.t.Helper()
	found, err := outlook.Of(w.store).UserAgenda(w.test.Context(), "ada")
	if err != nil {
		w.t.Fatalf("read what waits: %v", err)
	}
	for _, waiting := range found.Waiting {
		categories = append(categories, waiting.Category)
	}
	return categories
}

// together are those categories in which something takes slots from what goes in another, or from what takes its slots:
// of categories in which something waits, as one in which nothing does connects no others.
func (w *world) together(category string, categories []string) []string {
	found := []string{category}
	for i := 0; i < len(found); i++ {
		for _, other := range categories {
			if !slices.Contains(found, other) && w.settings[found[i]].Plan.SharesCap(w.settings[other].Plan) {
				found = append(found, other)
			}
		}
	}
	return found
}

// randomWorld has random limits, hours and caps, and a past. It also gives a source of entries.
func randomWorld(t *testing.T, r *rand.Rand) (w *world, random func() agenda.Entry) {
	t.Helper()
	w = newWorld(t, t, redistest.Client(t), agenda.Settings{})
	userCap, named := capsOf(r)
	days := daysOf(r)
	categories := []string{"chat", "news", "mail"}[:1+r.IntN(3)]
	for _, category := range categories {
		s := agenda.Settings{Plan: planOf(r, userCap, named), MaxDefer: 1000 * time.Hour}
		if r.IntN(3) == 0 {
			s.MaxDefer = time.Duration(5+r.IntN(100)) * 100 * time.Millisecond
		}
		s.Plan.Boundaries = days
		if err := s.Plan.Validate(); err != nil {
			t.Fatal(err)
		}
		s.BypassFrom, s.ExemptFrom = notification.Priority(r.IntN(3)), notification.Priority(r.IntN(3))
		s.Drops = r.IntN(3) == 0
		w.settings[category] = s
	}
	random = func() agenda.Entry {
		e := agenda.Entry{
			Category: categories[r.IntN(len(categories))], Priority: notification.Priority(1 + r.IntN(4)),
			Payload: agenda.OnChannel([]notification.Channel{"fcm", "email", "webhook"}[r.IntN(3)]),
		}
		if r.IntN(8) == 0 {
			e.SendAt = w.now.Add(time.Duration(1+r.IntN(100)) * 100 * time.Millisecond)
		}
		if r.IntN(8) == 0 {
			e.ExpiresAt = w.now.Add(time.Duration(101+r.IntN(100)) * 100 * time.Millisecond)
		}
		return e
	}
	for range r.IntN(20) { // a past
		w.accept(random())
		w.playUntil(w.now.Add(time.Duration(r.IntN(10)) * 100 * time.Millisecond))
	}
	return w, random
}

// collapseKey is a random collapse key, or none.
func collapseKey(r *rand.Rand, some bool) string {
	if !some {
		return ""
	}
	return []string{"", "", "a", "b", "c"}[r.IntN(5)]
}

// Each goes at the very moment that was told of it, in the place that was told: whatever the limits, the hours and the
// cap over several categories, whatever is due later, and whatever replaces what.
func TestWhatIsToldIsWhatHappens(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	for n := range 40 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			w, random := randomWorld(t, r)
			collapses := n%2 == 1
			for range r.IntN(10) {
				e := random()
				e.CollapseKey = collapseKey(r, collapses)
				w.accept(e)
			}
			var entries []agenda.Entry
			for i := range 1 + r.IntN(40) {
				entries = append(entries, random())
				entries[i].ID, entries[i].UserID = "asked"+strconv.Itoa(i), "ada"
				entries[i].CollapseKey = collapseKey(r, collapses)
			}
			looked := w.promises(entries, r.IntN(2)*r.IntN(len(entries)+1)) // some are on their way
			for _, e := range entries {
				w.accept(e)
			}
			told := map[string]*agenda.State{}
			for i, p := range w.promises(entries, len(entries)) {
				s := w.state(entries[i].ID)
				if s.Status == notification.StatusReplaced { // by one of the others
					continue
				}
				told[s.ID] = s
				if limit, _, _ := strings.Cut(looked[i].TooLate, " "); limit != "" { // it will end
					looked[i] = notification.Promise{Reason: limit}
					if limit == "quiet" {
						looked[i].Reason = notification.ReasonQuietHours
					}
				}
				if diff := cmp.Diff(looked[i], p); diff != "" || !p.DeliverAt.Equal(s.DeliverAt) ||
					s.Status != notification.StatusScheduled && !s.DeliverAt.IsZero() && p.Place != s.Ahead+1 {
					t.Errorf("seed %d: %s is promised for %s, its view says %s (-before accepting +after):\n%s", seed, s.ID,
						p.DeliverAt, s.DeliverAt, diff)
				}
			}
			before, gone, categories := w.now, map[string]int{}, w.waitsIn()
			for _, g := range w.drain() {
				s, number := told[g.Notification.ID], gone[g.Category]
				for _, category := range w.together(g.Category, categories) {
					gone[category]++
				}
				delete(told, g.Notification.ID)
				if s == nil {
					continue // of the past
				}
				if !s.DeliverAt.Equal(g.AdmittedAt) || s.Status != notification.StatusScheduled && s.Ahead != number {
					t.Errorf("seed %d: %s of %s goes as number %d after %s; told was %d, after %s, %s", seed, s.ID,
						s.Category, number, g.AdmittedAt.Sub(before), s.Ahead, s.DeliverAt.Sub(before), s.Reason)
				}
			}
			for id, s := range told {
				if end := w.state(id); !s.Doomed || end.Status != notification.StatusExpired || end.Reason != s.Reason {
					t.Errorf("seed %d: %s of %s is %s, %s; told was %s after %s", seed, id, s.Category, end.Status,
						end.Reason, s.Reason, s.DeliverAt.Sub(before))
				}
			}
		})
	}
}
