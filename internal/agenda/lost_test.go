package agenda_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// sweepAll has a process sweep a partition until it finds nothing more.
func (w *world) sweepAll(store *agenda.Agendas, partition int) (woken, scripts int) {
	w.t.Helper()
	for more := true; more; scripts++ {
		repairs, err := store.Sweep(w.test.Context(), partition)
		if err != nil {
			w.t.Fatalf("sweep: %v", err)
		}
		if repairs.Woken > scriptLimit {
			w.t.Fatalf("one script replaced %d wake-ups", repairs.Woken)
		}
		woken, more = woken+repairs.Woken, repairs.More
	}
	return woken, scripts
}

// All queue tasks of a partition are gone: one round of sweeps, each of a bounded number, has every user come again.
func TestAPartitionWithoutTasksHeals(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	const users = 500
	partition := w.store.PartitionOf("ada")
	var entries []agenda.Entry
	for i := 0; len(entries) < 2*users; i++ {
		if user := "user" + strconv.Itoa(i); w.store.PartitionOf(user) == partition {
			for n := range 2 {
				entries = append(entries, agenda.Entry{
					ID: fmt.Sprint(user, "-", n), UserID: user, Category: "chat", Priority: notification.PriorityNormal,
				})
			}
		}
	}
	for at := 0; at < len(entries); at += scriptLimit {
		if _, err := w.store.Accept(t.Context(), partition, entries[at:at+scriptLimit]); err != nil {
			t.Fatal(err)
		}
	}
	w.serve() // one of each; the other waits for 3 s
	if total := w.total(); total.Sending != users || total.Deferred != users {
		t.Fatalf("counts %+v", total)
	}
	for len(w.grants) > 0 {
		w.settle(delivered)
	}
	keys := w.client.Keys(t.Context(), queueKey(partition, "*")).Val()
	if err := w.client.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	w.advance(4 * time.Second)
	woken, scripts := w.sweepAll(w.store, partition)
	if woken != users || scripts > users/scriptLimit+2 {
		t.Errorf("%d users came again after %d scripts", woken, scripts)
	}
	before := w.now
	if got := w.drain(); len(got) != users || !w.now.Equal(before) {
		t.Errorf("%d were delivered, in %s", len(got), w.now.Sub(before))
	}
	w.wantNothingLeft()
}

// What people do with asynq's tools does no harm: a deferred user is a scheduled task, which may be run, archived or
// deleted.
func TestAsynqsTools(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(i *asynq.Inspector, queue string) error{
		"look":    func(*asynq.Inspector, string) error { return nil },
		"run":     func(i *asynq.Inspector, queue string) error { return i.RunTask(queue, "ada") },
		"delete":  func(i *asynq.Inspector, queue string) error { return i.DeleteTask(queue, "ada") },
		"archive": func(i *asynq.Inspector, queue string) error { return i.ArchiveTask(queue, "ada") },
		"archive and run": func(i *asynq.Inspector, queue string) error {
			return errors.Join(i.ArchiveTask(queue, "ada"), i.RunTask(queue, "ada"))
		},
		"run twice": func(i *asynq.Inspector, queue string) error {
			return errors.Join(i.RunTask(queue, "ada"), i.ArchiveTask(queue, "ada"), i.RunTask(queue, "ada"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Minute}}}})
			w.rush(3)
			w.settle(delivered)
			partition := w.store.PartitionOf("ada")
			queue := queue.PartitionName(partition)
			if err := w.client.SAdd(t.Context(), "asynq:queues", queue).Err(); err != nil {
				t.Fatal(err)
			}
			inspector := asynq.NewInspectorFromRedisClient(w.client)
			tasks, err := inspector.ListScheduledTasks(queue)
			if err != nil || len(tasks) != 1 || tasks[0].ID != "ada" || tasks[0].Type != "pacer:wakeup" {
				t.Fatalf("scheduled are %+v, %v", tasks, err)
			}
			if at := tasks[0].NextProcessAt; at.Unix() != start.Add(time.Minute).Unix()-1 {
				t.Errorf("the task is due at %s, want the second before the slot", at)
			}
			if err := do(inspector, queue); err != nil {
				t.Fatal(err)
			}
			if got := w.playUntil(start.Add(time.Minute)); name == "look" && len(got) != 1 {
				t.Errorf("%d were delivered in time", len(got))
			}
			if w.now.Before(start.Add(62 * time.Second)) {
				w.advance(start.Add(62 * time.Second).Sub(w.now))
			}
			w.sweep()
			w.drain()
			if total := w.total(); total.Totals.Delivered != 3 {
				t.Errorf("in the end %+v", total)
			}
			w.client.Del(t.Context(), "asynq:queues")
			w.wantNothingLeft()
		})
	}
}

// What a process has at work from before a partition lost its state means nothing afterwards, though others have begun
// anew.
func TestAWakeupOfBeforeALossMeansNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{})
	partition, other := w.store.PartitionOf("ada"), w.open("other")
	before := w.round(partition, 1).Pulled
	if err := w.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Millisecond)
	w.accept(agenda.Entry{})
	after, err := other.Take(t.Context(), dispatch.TakeRequest{Partition: partition, ID: "a", Pull: 1})
	if err != nil || len(after.Pulled) != 1 {
		t.Fatalf("pulled %+v, %v", after, err)
	}
	old, err := w.store.Take(t.Context(), dispatch.TakeRequest{
		Partition: partition, ID: "b", Capacity: 1, Wakeups: before,
	})
	if err != nil || old.Results[0].Held || len(old.Results[0].Grants) > 0 {
		t.Errorf("the result of the old wake-up is %+v, %v", old.Results, err)
	}
	granted, err := other.Take(t.Context(), dispatch.TakeRequest{
		Partition: partition, ID: "c", Capacity: 1, Wakeups: after.Pulled,
	})
	if err != nil || len(granted.Results[0].Grants) != 1 {
		t.Errorf("the result of the new one is %+v, %v", granted.Results, err)
	}
}

// asynq's own recovery takes a wake-up from a process that stands still. Once another process has been served with it,
// the hold of the first process means nothing.
func TestAHoldEndsWhenAsynqRecoversTheWakeup(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	atOnce, err := agenda.New(w.client, agenda.Config{
		Partitions: partitions, Settings: w.settingsOf, Lease: lease, Process: "other",
		Categories: func() []string { return []string{"chat"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := atOnce.UseClockKey(); err != nil {
		t.Fatal(err)
	}
	w.accept(agenda.Entry{})
	w.accept(agenda.Entry{})
	partition := w.store.PartitionOf("ada")
	stalled := w.round(partition, 1).Pulled
	if len(stalled) != 1 {
		t.Fatalf("pulled %v", stalled)
	}
	w.client.LRem(t.Context(), queueKey(partition, "active"), 0, "ada")
	w.client.ZRem(t.Context(), queueKey(partition, "lease"), "ada")
	w.client.HSet(t.Context(), queueKey(partition, "t:ada"), "state", "pending")
	w.client.LPush(t.Context(), queueKey(partition, "pending"), "ada")
	served, err := atOnce.Take(t.Context(), dispatch.TakeRequest{Partition: partition, ID: "a.1", Pull: 1, Capacity: 1})
	if err != nil || len(served.Served) != 1 || len(served.Served[0].Grants) != 1 {
		t.Fatalf("the other process was granted %+v, %v; want one of the two", served.Served, err)
	}
	late, err := w.store.Take(t.Context(), dispatch.TakeRequest{
		Partition: partition, ID: "b.1", Capacity: 1, Wakeups: stalled,
	})
	if err != nil || late.Results[0].Held || len(late.Results[0].Grants) > 0 {
		t.Errorf("the result of the recovered wake-up is %+v, %v; want nothing", late.Results, err)
	}
}

// An entry that stands in the queue twice, since the task was lost and found again, is not pulled as if something
// waited in the round that serves the user to the end.
func TestAUserWhoIsServedToTheEndIsNotPulledAgain(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{})
	partition := w.store.PartitionOf("ada")
	if pulled := w.round(partition, 1).Pulled; len(pulled) != 1 {
		t.Fatalf("pulled %v", pulled)
	}
	w.client.HSet(t.Context(), queueKey(partition, "t:ada"), "state", "pending")
	w.client.LPush(t.Context(), queueKey(partition, "pending"), "ada")
	w.room = 1
	if reply := w.round(partition, 2); len(w.grants) != 1 || len(reply.Pulled) != 0 {
		t.Errorf("granted %d, pulled %v", len(w.grants), reply.Pulled)
	}
	w.settle(delivered)
	w.wantNothingLeft()
}
