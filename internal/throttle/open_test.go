package throttle_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Who would expire while users begin again after a night goes a minute before that, and never in the night.
func TestWhatExpiresInTheSpreadGoesBefore(t *testing.T) {
	t.Parallel()
	const user = "ada"
	at := func(d time.Duration) throttle.Micros { return throttle.Micros(0).Add(d) }
	plan := throttle.Plan{
		Closed: throttle.Closed{
			{From: at(22 * time.Hour), Until: at(32 * time.Hour)},
			{From: at(36 * time.Hour), Until: at(40 * time.Hour)},
		},
		Spread: time.Hour,
	}
	mine := plan.For(user).Closed[0].Until
	if mine <= at(32*time.Hour+5*time.Minute) {
		t.Fatalf("the user begins again at %d, which shows little", mine)
	}
	night1, night2, to := at(23*time.Hour), at(37*time.Hour), at(32*time.Hour)
	minutes := to.Add(5 * time.Minute)
	for name, c := range map[string]struct {
		t, expires, want throttle.Micros
	}{
		"it never expires":                {t: night1, want: mine},
		"it expires in the night":         {t: night1, expires: to.Add(-time.Hour), want: mine},
		"it expires as the night ends":    {t: night1, expires: to, want: mine},
		"right after the night":           {t: night1, expires: to.Add(time.Second), want: to},
		"minutes after the night":         {t: night1, expires: minutes, want: to.Add(4 * time.Minute)},
		"as the user begins again":        {t: night1, expires: mine, want: mine.Add(-time.Minute)},
		"after the user begins again":     {t: night1, expires: mine + 1, want: mine},
		"within its last minute":          {t: to.Add(270 * time.Second), expires: minutes, want: to.Add(270 * time.Second)},
		"by day":                          {t: at(34 * time.Hour), expires: at(35 * time.Hour), want: at(34 * time.Hour)},
		"in the second night's spread":    {t: night2, expires: at(40*time.Hour + time.Minute), want: at(40 * time.Hour)},
		"expired before the second night": {t: night2, expires: minutes, want: plan.For(user).Closed[1].Until},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := plan.Open(user, c.t, c.expires); got != c.want {
				t.Errorf("opens at %d, want %d", got, c.want)
			}
		})
	}
}

// Without an expiry, Open is what the closed intervals of the user's plan say.
func TestOpenWithoutExpiryIsThePlansOfTheUser(t *testing.T) {
	t.Parallel()
	plan := throttle.Plan{
		Closed: throttle.Closed{{From: 100, Until: 200}, {From: 220, Until: 300}, {From: 900, Until: 1000}},
		Spread: 50 * time.Microsecond,
	}
	for _, user := range []string{"ada", "bob", "eve", "kim", "lea"} {
		for at := range throttle.Micros(1200) {
			if got, want := plan.Open(user, at, 0), plan.For(user).Closed.Open(at); got != want {
				t.Fatalf("%s at %d: %d, want %d", user, at, got, want)
			}
		}
	}
}
