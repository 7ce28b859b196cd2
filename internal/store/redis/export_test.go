package redis_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/internal/store/transfer"
	"github.com/pacer-notify/pacer/test/redistest"
)

// What is handed over to another store keeps when it is due: a retry its moment, what is being sent the end of its
// lease.
func TestExportTellsWhenARetryIsDue(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{
		Partitions: 1, Settings: storetest.Settings, Lease: 2 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	store := redis.New(client, agendas)
	var batch []*notification.Notification
	for _, id := range []string{"retried", "sending"} {
		batch = append(batch, &notification.Notification{
			ID: id, UserID: "ada", Category: "free", Channel: notification.ChannelLog,
			Priority: notification.PriorityNormal,
		})
	}
	if _, err := store.Accept(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	pulled, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "pull", Pull: 1})
	if err != nil {
		t.Fatal(err)
	}
	served, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "ask", Wakeups: pulled.Pulled, Capacity: 2})
	if err != nil || len(served.Results) != 1 || len(served.Results[0].Grants) != 2 {
		t.Fatalf("served %+v, %v", served, err)
	}
	late := dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: 5 * time.Hour, Failure: true,
	}
	if _, err := store.Settle(t.Context(), served.Results[0].Grants[0], late); err != nil {
		t.Fatal(err)
	}
	in := map[string]time.Duration{}
	if err := store.Export(t.Context(), func(b *transfer.Batch) error {
		for _, n := range b.Notifications {
			if n.Status != "retrying" {
				t.Errorf("%s is %s", n.ID, n.Status)
			}
			in[n.ID] = time.Until(n.NotBefore).Round(time.Hour)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(in) != 2 || in["retried"] != 5*time.Hour || in["sending"] != 2*time.Hour {
		t.Errorf("they are due in %v", in)
	}
}

// One whose back-off has ended, and which waits in its backlog since, is handed over with that end: max_defer counts
// from it, and not from the acceptance.
func TestExportTellsSinceWhenARetryWaits(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	store := redis.New(client, agendas)
	accept := func(ids ...string) {
		for _, id := range ids {
			if _, err := store.Accept(t.Context(), []*notification.Notification{{
				ID: id, UserID: "ada", Category: "slow", Channel: notification.ChannelLog,
				Priority: notification.PriorityNormal,
			}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	serve := func(round string) []*dispatch.Grant {
		t.Helper()
		var wakeups []dispatch.Wakeup
		for len(wakeups) == 0 { // it is due in a moment
			pulled, err := store.Take(t.Context(), dispatch.TakeRequest{ID: rand.Text(), Pull: 1})
			if err != nil {
				t.Fatal(err)
			}
			wakeups = pulled.Pulled
		}
		served, err := store.Take(t.Context(), dispatch.TakeRequest{ID: round, Wakeups: wakeups, Capacity: 2})
		if err != nil || len(served.Results) != 1 {
			t.Fatalf("served %+v, %v", served, err)
		}
		return served.Results[0].Grants
	}
	accept("retried")
	grants := serve("first")
	if len(grants) != 1 {
		t.Fatalf("%d are granted", len(grants))
	}
	failed := dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Microsecond, Failure: true,
	}
	if _, err := store.Settle(t.Context(), grants[0], failed); err != nil {
		t.Fatal(err)
	}
	accept("new")
	if grants := serve("second"); len(grants) > 0 {
		t.Fatalf("%s is granted, although only one may go in an hour", grants[0].Notification.ID)
	}
	view, err := store.View(t.Context(), "retried")
	if err != nil || view.Status != notification.StatusDeferred || !view.WaitsSince.After(view.CreatedAt) {
		t.Fatalf("it is %+v, %v; want it deferred since its back-off", view, err)
	}
	want, got := map[string]time.Time{"retried": view.WaitsSince, "new": {}}, map[string]time.Time{}
	if err := store.Export(t.Context(), func(b *transfer.Batch) error {
		for _, n := range b.Notifications {
			if n.Status != "waiting" {
				t.Errorf("%s is %s", n.ID, n.Status)
			}
			got[n.ID] = n.NotBefore
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("their back-offs ended at (-want +got):\n%s", diff)
	}
}

// Where an id was used again, each of its admissions is handed over as one of its own.
func TestExportTellsAdmissionsOfOneIDApart(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	log := agenda.PartitionPrefix(0) + "l:chat:ada"
	if err := client.ZAdd(t.Context(), log, goredis.Z{Score: -2, Member: "/n"}, goredis.Z{Score: -1000, Member: "/t"},
		goredis.Z{Score: 5000, Member: "digest#1/5000"}, goredis.Z{Score: 6000, Member: "digest#1"}).Err(); err != nil {
		t.Fatal(err)
	}
	var got []transfer.Admission
	if err := redis.New(client, agendas).Export(t.Context(), func(b *transfer.Batch) error {
		for _, a := range b.Admissions {
			if a.At > 0 {
				got = append(got, a)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []transfer.Admission{
		{UserID: "ada", Category: "chat", ID: "digest#1/5000", At: 5000},
		{UserID: "ada", Category: "chat", ID: "digest", Generation: 1, At: 6000},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the admissions (-want +got):\n%s", diff)
	}
}
