package agenda_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// switches are days on which clocks are switched; Kathmandu's stands for offsets that are no whole or half hour.
var switches = []struct{ zone, day string }{
	{zone: "Europe/Berlin", day: "2026-03-29"},
	{zone: "Europe/Berlin", day: "2026-10-25"},
	{zone: "America/New_York", day: "2026-03-08"},
	{zone: "America/New_York", day: "2026-11-01"},
	{zone: "Asia/Beirut", day: "2026-03-29"},
	{zone: "Asia/Beirut", day: "2026-10-24"},
	{zone: "Africa/Cairo", day: "2026-04-24"},
	{zone: "Africa/Cairo", day: "2026-10-29"},
	{zone: "America/Santiago", day: "2026-09-06"},
	{zone: "America/Santiago", day: "2026-04-04"},
	{zone: "America/Havana", day: "2026-03-08"},
	{zone: "America/Havana", day: "2026-11-01"},
	{zone: "Australia/Lord_Howe", day: "2026-10-04"},
	{zone: "Australia/Lord_Howe", day: "2026-04-05"},
	{zone: "Antarctica/Troll", day: "2026-03-29"},
	{zone: "Antarctica/Troll", day: "2026-10-25"},
	{zone: "Africa/Casablanca", day: "2026-02-15"},
	{zone: "Africa/Casablanca", day: "2026-03-22"},
	{zone: "Asia/Kathmandu", day: "2026-06-01"},
	{zone: "Pacific/Apia", day: "2011-12-30"},
}

// usualNight is when users sleep.
var usualNight = calendar.Window{Closed: []calendar.Range{{From: 22 * 60, To: 8 * 60}}}

// shows reports whether a zone's clock shows a time inside the window.
func shows(window calendar.Window, at time.Time, zone *time.Location) bool {
	hour, minute, _ := at.In(zone).Clock()
	now := calendar.Clock(60*hour + minute)
	for _, r := range window.Closed {
		if r.From < r.To && r.From <= now && now < r.To || r.From > r.To && (r.From <= now || now < r.To) {
			return true
		}
	}
	return false
}

// nightRules are those of the chat room: ten a minute with a gap of 3 s.
var nightRules = []throttle.Rule{
	{Max: 10, Per: time.Minute}, {Max: 1, Per: 3 * time.Second, Kind: throttle.KindGap},
}

// nightSpread is over how long users begin again.
const nightSpread = 10 * time.Minute

// late is by how much a wake-up may come after its moment: the world's clock counts µs, a held wake-up's ms.
const late = 5 * time.Millisecond

// wantOptimum compares what was admitted with the recurrence.
func wantOptimum(arrived, admitted []time.Time, plan throttle.Plan) error {
	if len(admitted) != len(arrived) {
		return fmt.Errorf("%d of %d were delivered", len(admitted), len(arrived))
	}
	log := throttle.Log{Rules: plan.Rules}
	for i, at := range arrived {
		best, _ := throttle.Next(throttle.MicrosOf(at), plan.Closed, log)
		log.Admitted = append(log.Admitted, best)
		if after := throttle.MicrosOf(admitted[i]).Sub(best); after < 0 || after > late {
			return fmt.Errorf("number %d was admitted %s after its moment, %s", i, after, best.Time())
		}
	}
	return nil
}

// The night of 500 users ends within six seconds, each at their own moment: in no second more than half as many again
// go as if they were dealt out, and each user's in order.
func TestANightEndsForMany(t *testing.T) {
	t.Parallel()
	const users, seconds = 200, 6
	end := start.Add(10 * time.Second)
	plan := throttle.Plan{
		Rules: nightRules, Spread: seconds * time.Second,
		Closed: throttle.Closed{{From: throttle.MicrosOf(start), Until: throttle.MicrosOf(end)}},
	}
	w := newWorld(t, t, redistest.Client(t), agenda.Settings{Plan: plan})
	for _, number := range []string{"first", "second"} {
		for i := range users {
			user := fmt.Sprint("user", i)
			w.accept(agenda.Entry{ID: number + "-of-" + user, UserID: user})
		}
	}
	var load [seconds]int
	gone := map[string]bool{}
	for _, g := range w.drain() {
		if after := g.AdmittedAt.Sub(end); !gone[g.UserID] {
			load[after/time.Second]++
		}
		number := map[bool]string{false: "first", true: "second"}[gone[g.UserID]]
		if g.Notification.ID != number+"-of-"+g.UserID {
			t.Errorf("%q goes as the %s", g.Notification.ID, number)
		}
		gone[g.UserID] = true
	}
	most := float64(slices.Max(load[:])) * seconds / users
	t.Logf("%d users in %d s: %.2f times the average in the fullest second", users, seconds, most)
	if most > 1.5 || len(gone) != users {
		t.Errorf("%d users by second: %v, want %d, and at most 1.5 times the average", len(gone), load, users)
	}
}
