package desk_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/records"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// lenient rules accept everything but notifications without a target on a channel that needs one.
type lenient struct{}

func (lenient) CheckCategory(string) error                      { return nil }
func (lenient) Life(string, notification.Channel) time.Duration { return time.Hour }
func (lenient) MaxContent(notification.Channel) int             { return 4096 }
func (lenient) CheckDelivery(*notification.Notification) error  { return nil }

// bulkStore is what bulk jobs and intake need of a store.
type bulkStore interface {
	desk.ManyStore
	intake.Store
}

// deployment is a store with what works on it. Its processes come and go.
type deployment struct {
	t       *testing.T
	store   bulkStore
	intake  *intake.Intake
	control control.Store
	// later is how far the store's clock is ahead, for a process that takes over.
	later time.Duration
}

// newDeployment keeps its store in a Redis within the process, which is enough where the store decides nothing.
func newDeployment(t *testing.T) *deployment {
	t.Helper()
	return deployOnRedis(t, redistest.Mini(t))
}

func deployOnRedis(t *testing.T, client *goredis.Client) *deployment {
	t.Helper()
	agendas, err := agenda.New(client, agenda.Config{Partitions: storetest.Partitions, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	return deploy(t, redis.New(client, agendas), control.New(redis.NewRecords(client)))
}

func deployOnPostgres(t *testing.T) *deployment {
	t.Helper()
	store, _, pool := openPostgres(t, agenda.Config{
		Partitions: storetest.Partitions, Settings: storetest.Settings, Guarded: true,
	})
	return deploy(t, store, control.New(records.New(pool)))
}

func deploy(t *testing.T, store bulkStore, jobStore control.Store) *deployment {
	t.Helper()
	return &deployment{
		t: t, store: store, control: jobStore,
		intake: intake.New(intake.Config{
			Store: store, Rules: lenient{}, Log: slog.New(slog.DiscardHandler),
			HasDevice: func(_ context.Context, user string, _ notification.Channel) (bool, error) {
				return user != "without", nil
			},
		}),
	}
}

// process is one process of the deployment that can run jobs. It dies at its die-th step; 0 for never. When late is
// true, the step is done and nobody learns of it.
func (d *deployment) process(name string, die int, late bool) *desk.Many {
	mortal := &mortal{die: die, late: late}
	return &desk.Many{
		Store: mortalStore{d.store, mortal}, Intake: accepting{d.intake, mortal},
		Control: jobs{d.control, mortal, &d.later},
		Names: func() desk.Names {
			return desk.Names{Categories: []string{"free", "slow"}, Channels: []string{"email", "log", "webhook"}}
		},
		Process: name, Rate: 100_000, Log: slog.New(slog.DiscardHandler),
	}
}

// accept has n notifications accepted, and returns their ids.
func (d *deployment) accept(n int, change func(*notification.Notification)) []string {
	d.t.Helper()
	var ids []string
	for i := range n {
		request := intake.Request{Notification: notification.Notification{
			ID: fmt.Sprintf("n%d", i), UserID: fmt.Sprintf("user%d", i), Category: "slow", Channel: "webhook",
			To: "https://hooks.example/", Title: "hello",
		}}
		if change != nil {
			change(&request.Notification)
		}
		results, err := d.intake.Accept(d.t.Context(), []intake.Request{request})
		if err != nil || results[0].Err != nil {
			d.t.Fatal(err, results)
		}
		ids = append(ids, request.ID)
	}
	return ids
}

// begin counts and confirms an order.
func (d *deployment) begin(m *desk.Many, o desk.BulkOrder, want int) *desk.BulkJob {
	d.t.Helper()
	count, err := m.CountBulk(d.t.Context(), o)
	if err != nil || count.Count != want || count.More {
		d.t.Fatalf("counted %+v, %v; want %d", count, err, want)
	}
	o.Filter, o.Confirm = count.Filter, count.Confirm
	j, err := m.BeginBulk(d.t.Context(), o, "ada")
	if err != nil {
		d.t.Fatal(err)
	}
	return j
}

// all lists every notification of the deployment, by id.
func (d *deployment) all() map[string]notification.View {
	d.t.Helper()
	all := map[string]notification.View{}
	for f := (notification.Filter{Limit: 1000}); ; {
		page, err := d.store.List(d.t.Context(), f)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, v := range page.Items {
			all[v.ID] = v
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

var errDead = errors.New("the process is dead")

// mortal dies at a step.
type mortal struct {
	mu         sync.Mutex
	steps, die int
	late       bool
}

// step does a step, unless the process is dead.
func (m *mortal) step(do func() error) error {
	m.mu.Lock()
	m.steps++
	now := m.steps
	m.mu.Unlock()
	switch {
	case m.die == 0 || now < m.die:
		return do()
	case now == m.die && m.late:
		_ = do() // nobody learns of it
	}
	return errDead
}

type mortalStore struct {
	bulkStore
	mortal *mortal
}

func (s mortalStore) View(ctx context.Context, id string) (v *notification.View, err error) {
	err = s.mortal.step(func() error { v, err = s.bulkStore.View(ctx, id); return err })
	return v, err
}

func (s mortalStore) Find(ctx context.Context, f notification.Filter) (p *notification.Found, err error) {
	err = s.mortal.step(func() error { p, err = s.bulkStore.Find(ctx, f); return err })
	return p, err
}

func (s mortalStore) CancelBecause(ctx context.Context, id, reason string) error {
	return s.mortal.step(func() error { return s.bulkStore.CancelBecause(ctx, id, reason) })
}

type accepting struct {
	*intake.Intake
	mortal *mortal
}

func (a accepting) Accept(ctx context.Context, batch []intake.Request) (r []intake.Result, err error) {
	err = a.mortal.step(func() error { r, err = a.Intake.Accept(ctx, batch); return err })
	return r, err
}

type jobs struct {
	control.Store
	mortal *mortal
	later  *time.Duration
}

func (j jobs) ChangeJob(ctx context.Context, id string, change func(*control.Job, time.Time) error,
) (changed *control.Job, err error) {
	err = j.mortal.step(func() error {
		changed, err = j.Store.ChangeJob(ctx, id, func(j2 *control.Job, now time.Time) error {
			return change(j2, now.Add(*j.later))
		})
		return err
	})
	return changed, err
}

// run runs the oldest job to its end, and returns it.
func (d *deployment) run(m *desk.Many, id string) *desk.BulkJob {
	d.t.Helper()
	if ran, err := m.RunJob(d.t.Context()); !ran || err != nil {
		d.t.Fatalf("ran %t, %v", ran, err)
	}
	j, err := m.Job(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	return j
}

// What a move would lose stays where it is: a user without a device on the other channel keeps the notification.
func TestAMoveCancelsNothingThatWouldBeRefused(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	m := d.process("one", 0, false)
	d.accept(3, func(n *notification.Notification) {
		if n.ID == "n1" {
			n.UserID = "without"
		}
	})
	j := d.run(m, d.begin(m, desk.BulkOrder{Action: "move", Channel: "email"}, 3).ID)
	if j.Done != 2 || j.Refused != 1 || len(j.Faults) != 1 {
		t.Errorf("%+v", j)
	}
	if v := d.all()["n1"]; !v.Status.Waiting() || v.Channel != "webhook" {
		t.Errorf("n1 is %s over %s", v.Status, v.Channel)
	}
}

// refused reports whether an operator is told why something was not done.
func refused(err error) bool {
	_, refused := errors.AsType[*desk.RefusalError](err)
	return refused
}

// A notification is sent again once, however many jobs and operators ask.
func TestEachIsSentAgainOnce(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	m := d.process("one", 0, false)
	old := d.accept(4, nil)
	for _, id := range old[:3] {
		if err := m.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Retry(t.Context(), old[0]); !refused(err) {
		t.Errorf("a cancelled one is sent again: %v", err)
	}
	if err := m.Cancel(t.Context(), old[0]); !errors.Is(err, notification.ErrNotWaiting) {
		t.Errorf("cancelled again: %v", err)
	}
	if _, err := m.Move(t.Context(), old[3], "webhook"); !refused(err) {
		t.Errorf("moved to where it is: %v", err)
	}
	first, err := m.Move(t.Context(), old[3], "log")
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.Move(t.Context(), old[3], "log")
	if err != nil || again != first {
		t.Errorf("moved to %s, and again to %s, %v", first, again, err)
	}
	if all := d.all(); len(all) != 5 {
		t.Errorf("there are %d, want 5", len(all))
	}
}

// A job changes what was counted and confirmed, and not what came later.
func TestAJobChangesWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	m := d.process("one", 0, false)
	d.accept(5, nil)
	order := desk.BulkOrder{Action: "cancel", Filter: "user=user1&category=slow"}
	count, err := m.CountBulk(t.Context(), order)
	if err != nil || count.Count != 1 {
		t.Fatalf("%+v, %v", count, err)
	}
	for name, wrong := range map[string]desk.BulkOrder{
		"another filter":  {Action: "cancel", Filter: "category=slow", Confirm: count.Confirm},
		"another action":  {Action: "retry", Filter: count.Filter, Confirm: count.Confirm},
		"another count":   {Action: "cancel", Filter: count.Filter, Confirm: "9" + count.Confirm},
		"an old count":    {Action: "cancel", Filter: count.Filter, Confirm: "1-1-x"},
		"no confirmation": {Action: "cancel", Filter: count.Filter},
	} {
		if j, err := m.BeginBulk(t.Context(), wrong, "ada"); err == nil {
			t.Errorf("%s: it began %+v", name, j)
		}
	}
	d.accept(1, func(n *notification.Notification) { n.ID, n.UserID = "later", "user1" })
	order.Filter, order.Confirm = count.Filter, count.Confirm
	j, err := m.BeginBulk(t.Context(), order, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := m.BeginBulk(t.Context(), order, "ada"); err != nil || twice.ID != j.ID {
		t.Errorf("the same confirmation began %+v, %v", twice, err)
	}
	if j = d.run(m, j.ID); j.Done != 1 || j.Status != control.JobDone {
		t.Errorf("%+v", j)
	}
	if all := d.all(); !all["later"].Status.Waiting() || all["n1"].Status.Waiting() {
		t.Errorf("what came later is %s", all["later"].Status)
	}
	entries, err := d.control.Audit(t.Context(), 9)
	if err != nil || len(entries) < 2 || entries[0].Action != "bulk cancel done" ||
		!strings.Contains(entries[0].Detail, "1 done") || entries[len(entries)-1].By != "ada" {
		t.Errorf("the audit log has %+v, %v", entries, err)
	}
}

// Jobs run one at a time, and one that is stopped finishes what it has begun.
func TestJobsRunOneAtATimeAndStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // on a clock of its own, by which no lease ends while the machine is slow
		d := newDeployment(t)
		d.accept(120, nil)
		<-time.After(time.Second)
		first, second := d.process("first", 4, true), d.process("second", 0, false)
		j := d.begin(second, desk.BulkOrder{Action: "cancel", Why: "by mistake"}, 120)
		if _, err := first.RunJob(t.Context()); !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		if ran, err := second.RunJob(t.Context()); ran || err != nil {
			t.Errorf("a second process runs it at the same time: %t, %v", ran, err)
		}
		if _, err := second.StopJob(t.Context(), j.ID, "ben"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if j = d.run(second, j.ID); j.Status != control.JobCancelled || j.Done != 50 {
			t.Errorf("%+v", j)
		}
		if _, err := second.StopJob(t.Context(), j.ID, "ben"); err == nil {
			t.Error("an ended job is stopped")
		}
	})
}

func TestOrdersAreChecked(t *testing.T) {
	t.Parallel()
	m := newDeployment(t).process("one", 0, false)
	for _, c := range []struct {
		field string
		order desk.BulkOrder
	}{
		{"action", desk.BulkOrder{Action: "rety"}},
		{"status", desk.BulkOrder{Action: "cancel", Filter: "status=delivered"}},
		{"status", desk.BulkOrder{Action: "retry", Filter: "status=failed,queued"}},
		{"usr", desk.BulkOrder{Action: "cancel", Filter: "usr=ada"}},
		{"filter", desk.BulkOrder{Action: "cancel", Filter: "limit=5"}},
		{"channel", desk.BulkOrder{Action: "move", Channel: "emial"}},
		{"channel", desk.BulkOrder{Action: "cancel", Channel: "log"}},
	} {
		_, err := m.CountBulk(t.Context(), c.order)
		if faults := notification.FieldErrors(err); len(faults) == 0 || faults[0].Field != c.field {
			t.Errorf("%+v: %v, want a fault of %s", c.order, err, c.field)
		}
	}
}
