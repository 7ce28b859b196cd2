package dispatch_test

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// A user's lane (32-bit FNV-1a modulo the number of lanes) is part of the keys of running deployments: no version of pacer may
// change it.
func TestLaneOfNeverChanges(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]map[int]int{
		"":               {1: 0, 2: 1, 16: 5, 1024: 453},
		"u-1":            {1: 0, 2: 0, 16: 2, 1024: 258},
		"ada@a.example":  {1: 0, 2: 0, 16: 4, 1024: 132},
		"{push-3}:тест ": {1: 0, 2: 0, 16: 4, 1024: 244},
	} {
		for lanes, want := range want {
			if got := dispatch.LaneOf(user, lanes); got != want {
				t.Errorf("user %q is in lane %d of %d, want %d", user, got, lanes, want)
			}
			backlog := dispatch.BacklogOf(user, "chat", lanes)
			if backlog != (dispatch.Backlog{Lane: want, UserID: user, Category: "chat"}) {
				t.Errorf("the backlog of user %q is %+v", user, backlog)
			}
		}
	}
}

// Users spread over all lanes, none of which gets more than its share and a half.
func TestUsersSpreadOverTheLanes(t *testing.T) {
	t.Parallel()
	const users, lanes = 16_000, 16
	var counts [lanes]int
	for i := range users {
		counts[dispatch.LaneOf("user-"+strconv.Itoa(i), lanes)]++
	}
	for lane, n := range counts {
		if n < users/lanes/2 || n > users/lanes*3/2 {
			t.Errorf("lane %d has %d of %d users: %v", lane, n, users, counts)
		}
	}
}

func TestLaneNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lane := rapid.IntRange(0, 1023).Draw(t, "lane")
		name := dispatch.LaneName(lane)
		if back, err := dispatch.LaneOfName(name); err != nil || back != lane {
			t.Fatalf("lane %d is called %s, which is read as %d (%v)", lane, name, back, err)
		}
		if strings.ContainsAny(name, "{}") {
			t.Fatalf("%s can't be a hash tag", name)
		}
	})
	for _, name := range []string{
		"", "3", "push-", "push", "push-x", "push-3x", "push- 3", "push-03", "push-+3", "push--0", "PUSH-3", "push-push-3",
		"default", "push-99999999999999999999",
	} {
		if lane, err := dispatch.LaneOfName(name); err == nil {
			t.Errorf("%q is read as lane %d", name, lane)
		} else if !strings.Contains(err.Error(), strconv.Quote(name)) {
			t.Errorf("the error about %q does not name it: %v", name, err)
		}
	}
}
