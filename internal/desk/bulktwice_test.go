package desk_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

// twice is a store that lists each notification on two pages, as a scan of Redis may while its table grows.
type twice struct{ desk.ManyStore }

// again begins the cursor of a page that comes for the second time.
const again = "again "

func (t twice) Find(ctx context.Context, f notification.Filter) (*notification.Found, error) {
	cursor, second := strings.CutPrefix(f.Cursor, again)
	f.Cursor = cursor
	found, err := t.ManyStore.Find(ctx, f)
	if err == nil && !second {
		found.Next = again + cursor
	}
	return found, err
}

// What is listed twice is counted, changed and reported once.
func TestWhatIsListedTwiceIsChangedOnce(t *testing.T) {
	t.Parallel()
	d := deployOnRedis(t, redistest.Client(t))
	const n = 7
	d.accept(n, nil)
	m := d.process("p", 0, false)
	m.Store = twice{m.Store}
	j := d.begin(m, desk.BulkOrder{Action: desk.ActionCancel, Filter: ""}, n)
	if ran, err := m.RunJob(t.Context()); err != nil || !ran {
		t.Fatal(ran, err)
	}
	j, err := m.Job(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if j.Status != control.JobDone || j.Done != n || j.Skipped != 0 || j.Refused != 0 {
		t.Errorf("the job is %+v, want %d done", j, n)
	}
}
