package agenda

import (
	"strings"

	"github.com/pacer-notify/pacer/internal/script"
)

// ClockKey holds the time in µs that scripts read after UseClockKey.
const ClockKey = "test:now"

// UseClockKey makes every script read its time from a key instead of the server's clock. Keys then live for ever: their
// times to live would run on the server's clock, and on a slow machine windows would be forgotten before they have
// passed.
func (a *Agendas) UseClockKey() error {
	return a.UseClockKeyWith(func(source string) string { return source })
}

// UseClockKeyWith is UseClockKey with changed scripts.
func (a *Agendas) UseClockKeyWith(change func(source string) string) error {
	const clock = `local function test_clock()
  local t = tonumber(redis.call('GET', '` + ClockKey + `'))
  return { string.format('%.0f', math.floor(t / 1000000)), string.format('%.0f', t % 1000000) }
end
local function test_expire() end
`
	for name, kept := range a.scripts() {
		source, err := a.cfg.sourceOf(name, "", a.OneServer)
		if err != nil {
			return err
		}
		source = strings.ReplaceAll(source, "redis.call('TIME')", "test_clock()")
		source = strings.ReplaceAll(source, "redis.call('PEXPIRE', ", "test_expire(")
		*kept = script.New(clock + change(source))
	}
	return nil
}

// Spread has the store work as on Redis Cluster, where each partition may be on a server of its own.
func (a *Agendas) Spread() { a.OneServer = false }
