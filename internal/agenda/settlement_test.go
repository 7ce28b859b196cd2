package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

func TestSettlementOfAnOldGenerationChangesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	id := w.rush(1)[0]
	w.advance(lease + time.Second)
	if repairs := w.sweep(); repairs.LeasesEnded != 1 {
		t.Fatalf("repairs %+v, want one lease", repairs)
	}
	w.serve()
	if len(w.grants) != 2 || w.grants[1].Attempt != 2 {
		t.Fatalf("granted again: %+v", w.grants)
	}
	if s := w.settle(delivered); !s.Stale {
		t.Errorf("the settlement after somebody else's grant was taken: %+v", s)
	}
	if s := w.state(id); s.Status != notification.StatusSending {
		t.Errorf("status %s", s.Status)
	}
	w.settle(delivered)
	if s := w.state(id); s.Status != notification.StatusDelivered {
		t.Errorf("status %s", s.Status)
	}
}

// A settlement whose reply was lost is repeated, also when what it led to is over and the notification waits again.
func TestARepeatedSettlementHasTheSameResult(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.rush(2)
	g := w.grants[0]
	retry := dispatch.Outcome{Disposition: dispatch.Retry, RetryAfter: time.Second, Failure: true}
	for range 2 {
		if s, err := w.store.Settle(t.Context(), g, retry); err != nil || s.Stale {
			t.Fatalf("settlement %+v, %v", s, err)
		}
	}
	if total := w.total(); total.Retrying != 1 || total.Sending != 0 {
		t.Errorf("counts %+v", total)
	}
	w.grants = nil
	w.advance(time.Second)
	w.serve()
	if s := w.state(g.Notification.ID); s.Status != notification.StatusDeferred {
		t.Fatalf("after its time came it is %s", s.Status)
	}
	if s, err := w.store.Settle(t.Context(), g, retry); err != nil || !s.Stale {
		t.Errorf("settled a third time: %+v, %v", s, err)
	}
	if s := w.state(g.Notification.ID); s.Status != notification.StatusDeferred {
		t.Errorf("then it is %s", s.Status)
	}
}

// A repeated round does not grant a notification whose lease has ended and which another process was granted.
func TestALostReplyGrantsNothingOfAnotherProcess(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{})
	partition, other := w.store.PartitionOf("ada"), w.open("other")
	pulled := w.round(partition, 1).Pulled
	take := dispatch.TakeRequest{Partition: partition, ID: "take", Capacity: 1, Wakeups: pulled}
	if first, err := w.store.Take(t.Context(), take); err != nil || len(first.Results[0].Grants) != 1 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	w.advance(lease + time.Second)
	w.sweep()
	theirs, err := other.Take(t.Context(), dispatch.TakeRequest{Partition: partition, ID: "a", Pull: 1})
	if err != nil {
		t.Fatal(err)
	}
	granted, err := other.Take(t.Context(), dispatch.TakeRequest{
		Partition: partition, ID: "b", Capacity: 1, Wakeups: theirs.Pulled,
	})
	if err != nil || len(granted.Results[0].Grants) != 1 {
		t.Fatalf("the other: %+v, %v", granted, err)
	}
	if again, err := w.store.Take(t.Context(), take); err != nil || len(again.Results[0].Grants) != 0 {
		t.Errorf("asked again: %+v, %v", again.Results, err)
	}
}
