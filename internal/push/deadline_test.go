package push_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// The first call must begin by the deadline. Once it has, the others of the same delivery may begin at any time.
func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		inTime, late := push.NewDeadline(start.Add(time.Second)), push.NewDeadline(start.Add(time.Second))
		if left := inTime.Left(3 * time.Second); left != time.Second {
			t.Errorf("%s are left, want 1s", left)
		}
		<-time.After(time.Second)
		if !inTime.Begin() {
			t.Error("a call at the deadline may not begin")
		}
		<-time.After(time.Millisecond)
		if late.Begin() {
			t.Error("a call after the deadline may begin")
		}
		if _, begun := late.Begun(); begun {
			t.Error("the call after the deadline has begun")
		}
		if at, begun := inTime.Begun(); !inTime.Begin() || !begun || !at.Equal(start.Add(time.Second)) {
			t.Errorf("the delivery began at %s (%t), and its second call may begin: %t", at.Sub(start), begun, inTime.Begin())
		}
		if left := inTime.Left(time.Minute); left != time.Minute {
			t.Errorf("once it has begun, %s are left, want what is asked for", left)
		}
		var none *push.Deadline
		if !none.Begin() || none.Left(time.Minute) != time.Minute {
			t.Error("no deadline bounds something")
		}
	})
}
