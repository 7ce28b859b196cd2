package docs_test

import (
	"slices"
	"testing"
)

// What a page shows by day is what comes a minute before midnight, when the next slots are tomorrow's.
func TestTheShapeOfALineIsTheSameAtMidnight(t *testing.T) {
	t.Parallel()
	const byDay = `standing      default: 3 deferred; first urgent: deferred by limit 1/1m, goes
              out at 14:06:18.619
  waits       second by log: deferred by limit 1/1m, goes out at 14:07:18.619, 1
              of the user's before it
`
	const atMidnight = `standing      default: 3 deferred; first urgent: deferred by limit 1/1m, goes
              out at 2026-11-24 00:00:18.619
  waits       second by log: deferred by limit 1/1m, goes out at 2026-11-24
              00:01:18.619, 1 of the user's before it
`
	want := []string{
		"standing default: 3 deferred; first urgent: deferred by limit 1/1m, goes out at TIME",
		"waits second by log: deferred by limit 1/1m, goes out at TIME, 1 of the user's before it",
	}
	const soon = "because       deferred by quiet hours until 08:09 UTC, goes out at 2026-11-23\n              08:09:32.204\n"
	const afterADay = "because       deferred by quiet hours until Tue 2026-11-24 08:09 UTC, goes\n" +
		"              out at 2026-11-24 08:09:32.204\n"
	if a, b := shape(soon), shape(afterADay); !slices.Equal(a, b) || len(a) != 1 {
		t.Errorf("%q is not the same as %q", a, b)
	}
	for _, text := range []string{byDay, atMidnight} {
		if got := shape(text); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
