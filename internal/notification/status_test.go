package notification_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/notification"
)

var statuses = []notification.Status{
	notification.StatusScheduled, notification.StatusQueued, notification.StatusDeferred, notification.StatusRetrying,
	notification.StatusSending, notification.StatusDelivered, notification.StatusFailed, notification.StatusExpired,
	notification.StatusCancelled, notification.StatusReplaced,
}

var ends = []notification.Status{
	notification.StatusDelivered, notification.StatusFailed, notification.StatusExpired, notification.StatusCancelled,
	notification.StatusReplaced,
}

// life is the picture in the package, one row per status and one column per status that may follow, in the order of
// statuses: every pair stands here, allowed (x) or not.
var life = map[notification.Status]string{
	//                             sch que def ret sen | del fai exp can rep
	notification.StatusScheduled: " -   x   x   -   -     -   -   x   x   x ",
	notification.StatusQueued:    " -   -   x   -   x     -   -   x   x   x ",
	notification.StatusDeferred:  " -   x   -   -   x     -   -   x   x   x ",
	notification.StatusRetrying:  " -   x   x   -   x     -   -   x   x   x ",
	notification.StatusSending:   " -   x   x   x   -     x   x   x   x   x ",
	notification.StatusDelivered: " -   -   -   -   -     -   -   -   -   - ",
	notification.StatusFailed:    " -   -   -   -   -     -   -   -   -   - ",
	notification.StatusExpired:   " -   -   -   -   -     -   -   -   -   - ",
	notification.StatusCancelled: " -   -   -   -   -     -   -   -   -   - ",
	notification.StatusReplaced:  " -   -   -   -   -     -   -   -   -   - ",
}

func TestEveryTransition(t *testing.T) {
	t.Parallel()
	for _, from := range statuses {
		marks := slices.DeleteFunc([]rune(life[from]), func(r rune) bool { return r == ' ' })
		if len(marks) != len(statuses) {
			t.Fatalf("the row of %s has %d marks, want %d", from, len(marks), len(statuses))
		}
		for i, to := range statuses {
			if got, want := from.CanBecome(to), marks[i] == 'x'; got != want {
				t.Errorf("%s may become %s: %t, want %t", from, to, got, want)
			}
		}
	}
}

func TestStatusKinds(t *testing.T) {
	t.Parallel()
	type kind struct{ waiting, ended bool }
	want := map[notification.Status]kind{
		notification.StatusScheduled: {waiting: true},
		notification.StatusQueued:    {waiting: true},
		notification.StatusDeferred:  {waiting: true},
		notification.StatusRetrying:  {waiting: true},
		notification.StatusSending:   {},
		notification.StatusDelivered: {ended: true},
		notification.StatusFailed:    {ended: true},
		notification.StatusExpired:   {ended: true},
		notification.StatusCancelled: {ended: true},
		notification.StatusReplaced:  {ended: true},
		"":                           {},
		"lost":                       {},
	}
	for status, want := range want {
		if got := (kind{status.Waiting(), status.Ended()}); got != want {
			t.Errorf("%q: %+v, want %+v", status, got, want)
		}
	}
}

func TestStatusesAreTheContractsNames(t *testing.T) {
	t.Parallel()
	want := []notification.Status{
		"scheduled", "queued", "deferred", "retrying", "sending", "delivered", "failed", "expired", "cancelled",
		"replaced",
	}
	if diff := cmp.Diff(want, statuses); diff != "" {
		t.Errorf("statuses differ (-want +got):\n%s", diff)
	}
}

func TestUnknownStatusBecomesNothing(t *testing.T) {
	t.Parallel()
	for _, unknown := range []notification.Status{"", "lost", "Queued", "queued "} {
		for _, known := range statuses {
			if unknown.CanBecome(known) || known.CanBecome(unknown) {
				t.Errorf("%q and %s may follow each other", unknown, known)
			}
		}
	}
}

// A notification that waits can always be cancelled and can always expire. One that has ended stays so. One that has
// not ended can still be delivered, whatever happened before.
func TestEveryStatusLeadsToAnEnd(t *testing.T) {
	t.Parallel()
	for _, s := range statuses {
		next := slices.DeleteFunc(slices.Clone(statuses), func(to notification.Status) bool { return !s.CanBecome(to) })
		if s.Ended() != (len(next) == 0) {
			t.Errorf("%s is an end: %t, yet these may follow: %v", s, s.Ended(), next)
		}
		for _, end := range []notification.Status{
			notification.StatusCancelled, notification.StatusExpired, notification.StatusReplaced,
		} {
			if s.Waiting() && !s.CanBecome(end) {
				t.Errorf("%s waits, but can't become %s", s, end)
			}
		}
		if reachable := reach(s); !s.Ended() && !slices.Contains(reachable, notification.StatusDelivered) {
			t.Errorf("from %s no delivery is reached, only %v", s, reachable)
		}
	}
	if got := reach(notification.StatusScheduled); !slices.Equal(got, sorted(statuses[1:])) {
		t.Errorf("from scheduled these are reached: %v, want all others", got)
	}
}

// reach gives, sorted, every status that may follow s sooner or later.
func reach(s notification.Status) []notification.Status {
	seen := map[notification.Status]bool{}
	for open := []notification.Status{s}; len(open) > 0; open = open[1:] {
		for _, to := range statuses {
			if open[0].CanBecome(to) && !seen[to] {
				seen[to] = true
				open = append(open, to)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func sorted(s []notification.Status) []notification.Status { return slices.Sorted(slices.Values(s)) }

// Whatever transitions a notification makes, it has exactly one end, and that is the last transition.
func TestRandomLivesEndOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		starts := []notification.Status{notification.StatusScheduled, notification.StatusQueued}
		status := rapid.SampledFrom(starts).Draw(t, "start")
		ended := 0
		for step := range rapid.IntRange(1, 50).Draw(t, "steps") {
			next := rapid.SampledFrom(statuses).Draw(t, "next")
			if !status.CanBecome(next) {
				continue
			}
			if ended > 0 {
				t.Fatalf("step %d goes on from the end %s to %s", step, status, next)
			}
			if status = next; slices.Contains(ends, status) {
				ended++
			}
		}
	})
}
