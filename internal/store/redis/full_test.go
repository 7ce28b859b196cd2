package redis_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// While Redis is full, the store still notes what was sent: the result, what became of it on a device, and that a
// device is gone.
func TestAFullRedisTakesResults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	agendas, err := agenda.New(server.Client(t), agenda.Config{Partitions: 1, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	store := redis.New(server.Client(t), agendas)
	n := &notification.Notification{
		ID: "n1", UserID: "ada", Category: "free", Channel: notification.ChannelWebhook, Priority: notification.PriorityNormal,
	}
	device := &notification.Device{
		UserID: "ada", ID: "phone", Channel: notification.ChannelWebhook, Target: "https://example.com", Active: true,
	}
	if err := store.PutDevice(t.Context(), device); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Accept(t.Context(), []*notification.Notification{n}); err != nil {
		t.Fatal(err)
	}
	pulled, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "pull", Pull: 1})
	if err != nil {
		t.Fatal(err)
	}
	served, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "serve", Wakeups: pulled.Pulled, Capacity: 1})
	if err != nil || len(served.Results) != 1 || len(served.Results[0].Grants) != 1 {
		t.Fatalf("served %+v, %v", served, err)
	}
	server.ConfigSet("maxmemory", "1") // everything is more than that
	noted := notification.Delivery{DeviceID: "phone", Ended: true, Outcome: "target_gone: 410", At: time.Now()}
	if err := store.NoteDelivery(t.Context(), n, noted); err != nil {
		t.Error(err)
	}
	if err := store.Deactivate(t.Context(), device, time.Now(), "410"); err != nil {
		t.Error(err)
	}
	outcome := dispatch.Outcome{Disposition: dispatch.Delivered}
	if _, err := store.Settle(t.Context(), served.Results[0].Grants[0], outcome); err != nil {
		t.Error(err)
	}
	view, err := store.View(t.Context(), "n1")
	if err != nil || view.Status != notification.StatusDelivered {
		t.Errorf("it is %+v, %v", view, err)
	}
	kept, err := store.Devices(t.Context(), "ada")
	if err != nil || len(kept) != 1 || kept[0].Active {
		t.Errorf("the devices are %+v, %v", kept, err)
	}
	if deliveries, err := store.Deliveries(t.Context(), n); err != nil || len(deliveries) != 1 || !deliveries[0].Ended {
		t.Errorf("the deliveries are %+v, %v", deliveries, err)
	}
}
