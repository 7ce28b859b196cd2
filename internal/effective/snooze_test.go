package effective_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// A user who wants quiet until a moment of the night begins again as without it: what would expire within the
// spread goes a minute before.
func TestQuietUntilAMomentOfTheNight(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		moment, err := time.Parse(time.RFC3339, "2026-03-10T"+clock+":00+01:00")
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	now := func() time.Time { return at("07:00") }
	plain := fixed(t, nightText)
	plain.Now = now
	begins := func(user string) throttle.Micros {
		return plain.Settings(user, "default").Plan.Open(user, throttle.MicrosOf(now()), 0)
	}
	user := "ada" // or another who begins again late
	for i := 0; begins(user) < throttle.MicrosOf(at("08:06")); i++ {
		user = fmt.Sprint("user", i)
	}
	for _, c := range []struct{ until, expires, want string }{
		{until: "", expires: "08:05", want: "08:04"},
		{until: "07:30", expires: "08:05", want: "08:04"},
		{until: "08:00", expires: "08:05", want: "08:04"},
		{until: "07:30", want: "part"},
		{until: "08:02", want: "part"},
		{until: "12:00", want: "12:00"},
		{until: "12:00", expires: "12:05", want: "12:00"},
	} {
		t.Run(c.until+" "+c.expires, func(t *testing.T) {
			t.Parallel()
			p := fixed(t, nightText)
			p.Now = now
			if c.until != "" {
				p.Own = wants(t, user, notification.Preferences{QuietUntil: at(c.until)})
			}
			expires, want := throttle.Micros(0), begins(user)
			if c.expires != "" {
				expires = throttle.MicrosOf(at(c.expires))
			}
			if c.want != "part" {
				want = throttle.MicrosOf(at(c.want))
			}
			got := p.Settings(user, "default").Plan.Open(user, throttle.MicrosOf(now()), expires)
			if got != want {
				t.Errorf("goes at %s, want %s", got.Time(), want.Time())
			}
		})
	}
}
