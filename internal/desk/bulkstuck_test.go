package desk_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// unreadable is a store that can't read one notification.
type unreadable struct {
	desk.ManyStore
	id string
}

func (s unreadable) View(ctx context.Context, id string) (*notification.View, error) {
	if id == s.id {
		return nil, errors.New("it can't be read")
	}
	return s.ManyStore.View(ctx, id)
}

// A job that can't get on is repeated until somebody stops it. Then those behind it run.
func TestAJobThatCanNotGetOnIsStopped(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.accept(3, nil)
	m := d.process("first", 0, false)
	m.Store = unreadable{m.Store, "n1"}
	stuck := d.begin(m, desk.BulkOrder{Action: "cancel", Why: "by mistake"}, 3)
	behind := d.begin(m, desk.BulkOrder{Action: "cancel", Why: "again", Filter: "user=user2"}, 1)
	for range 2 {
		if ran, err := m.RunJob(t.Context()); ran || err == nil {
			t.Fatalf("it gets on: %t, %v", ran, err)
		}
	}
	if _, err := m.StopJob(t.Context(), stuck.ID, "ben"); err != nil {
		t.Fatal(err)
	}
	if stuck = d.run(m, stuck.ID); stuck.Status != control.JobCancelled || len(stuck.Faults) != 1 ||
		!strings.HasSuffix(stuck.Faults[0], "it can't be read") {
		t.Errorf("the job that is stopped is %+v", stuck)
	}
	if behind = d.run(m, behind.ID); behind.Status != control.JobDone || behind.Done != 1 {
		t.Errorf("the job behind it is %+v", behind)
	}
}
