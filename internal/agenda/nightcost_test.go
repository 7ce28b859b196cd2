package agenda_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// manyNights are as many closed intervals as a plan may have.
func manyNights(begin time.Time) throttle.Closed {
	var closed throttle.Closed
	for i := range throttle.MaxClosed {
		from := throttle.MicrosOf(begin.AddDate(0, 0, i))
		closed = append(closed, throttle.Interval{From: from, Until: from.Add(10 * time.Hour)})
	}
	return closed
}

// Closed intervals cost no command of Redis, neither those whom they hold nor those whom they don't: only arguments.
func TestNightsCostNoCommand(t *testing.T) {
	t.Parallel()
	const notifications = 50
	commands := map[string]int{}
	for name, closed := range map[string]throttle.Closed{
		"without": nil, "with": manyNights(start.Add(time.Hour)), "held": manyNights(start.Add(-time.Hour)),
	} {
		plan := throttle.Plan{Rules: nightRules, Closed: closed, Spread: nightSpread}
		w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{Plan: plan})
		w.advance(time.Second)
		commands[name] = w.workOf(name, func() {
			for i := range notifications {
				w.accept(agenda.Entry{UserID: fmt.Sprint("user", i)})
			}
			for partition := range partitions {
				w.round(partition, notifications)
				w.round(partition, 0)
			}
			for name != "held" && len(w.grants) > 0 {
				w.settle(dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"})
			}
		}).commands
		t.Logf("%s nights: %.2f commands a notification, %d in flight", name,
			float64(commands[name])/notifications, len(w.grants))
	}
	if commands["with"] != commands["without"] {
		t.Errorf("%d commands with nights, %d without", commands["with"], commands["without"])
	}
}

// What a plan's closed intervals add to the arguments of a request is bounded, and without any it is two zeros.
func TestNightsCostFewArguments(t *testing.T) {
	t.Parallel()
	size := func(closed throttle.Closed, spread time.Duration) (bytes, arguments int) {
		for _, argument := range (throttle.Plan{Rules: nightRules, Closed: closed, Spread: spread}).Args(nil) {
			bytes += len(fmt.Sprint(argument))
			arguments++
		}
		return bytes, arguments
	}
	without, arguments := size(nil, 0)
	with, more := size(manyNights(start), 12*time.Hour)
	more -= arguments
	t.Logf("%d intervals add %d arguments of %d bytes", throttle.MaxClosed, more, with-without)
	if with-without > 600 || more != 2*throttle.MaxClosed {
		t.Errorf("%d bytes in %d arguments, want at most 600 in %d", with-without, more, 2*throttle.MaxClosed)
	}
}

// The moments at which 20,000 users begin again are spread evenly: in no second more than half as many again as if they
// were dealt out. A user's moment is always the same, so that nothing of theirs overtakes.
func TestSpreadIsEven(t *testing.T) {
	t.Parallel()
	const users, seconds = 20_000, 60
	for _, name := range []string{"user-%d", "%d", "%08x-e29b-41d4-a716-446655440000"} {
		var load [seconds]int
		for i := range users {
			user := fmt.Sprintf(name, i)
			plan := throttle.Plan{Closed: throttle.Closed{{From: 0, Until: 1}}, Spread: seconds * time.Second}.For(user)
			load[plan.Closed[0].Until.Sub(1)/time.Second]++
			if again := plan.For(user); !again.Equal(plan) {
				t.Fatalf("the plan of %s is spread twice: %+v, %+v", user, plan, again)
			}
		}
		most := float64(slices.Max(load[:])) * seconds / users
		t.Logf("users named %q: in the fullest second %.2f times as many as on average", name, most)
		if most > 1.5 || slices.Min(load[:]) == 0 {
			t.Errorf("users named %q by second: %v", name, load)
		}
	}
}
