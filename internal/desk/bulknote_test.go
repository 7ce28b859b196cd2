package desk_test

import (
	"context"
	"testing"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
)

// leaving is a store of jobs whose caller goes once a job is added. Like a database, it does nothing for those
// who have gone.
type leaving struct {
	control.Store
	leave func()
}

// AddJob implements [control.Jobs].
func (l leaving) AddJob(ctx context.Context, j control.Job) error {
	defer l.leave()
	return l.Store.AddJob(ctx, j)
}

// Note implements [control.Store].
func (l leaving) Note(ctx context.Context, e control.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.Store.Note(ctx, e)
}

// The audit log tells who began a job although nobody waited for the response.
func TestAJobOfSomebodyWhoHasGoneIsNoted(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.accept(1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	m := d.process("one", 0, false)
	m.Control = leaving{Store: d.control, leave: cancel}
	order := desk.BulkOrder{Action: "cancel", Filter: "category=slow"}
	count, err := m.CountBulk(ctx, order)
	if err != nil {
		t.Fatal(err)
	}
	order.Filter, order.Confirm = count.Filter, count.Confirm
	_, _ = m.BeginBulk(ctx, order, "ada") // whom the response is for has gone
	entries, err := d.control.Audit(t.Context(), 9)
	if err != nil || len(entries) != 1 || entries[0].By != "ada" || entries[0].Action != "bulk cancel" {
		t.Errorf("the audit log has %+v, %v", entries, err)
	}
}
