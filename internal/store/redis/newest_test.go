package redis_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A notification that failed may be sent again for as long as it is kept. For that long Redis remembers which is the
// newest with its collapse key.
func TestTheNewestIsRememberedWhileAnOlderCanBeSentAgain(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	n := &notification.Notification{
		ID: "n", UserID: "ada", Category: "free", Channel: notification.ChannelLog, CollapseKey: "score",
		Priority: notification.PriorityNormal,
	}
	if _, err := redis.New(client, agendas).Accept(t.Context(), []*notification.Notification{n}); err != nil {
		t.Fatal(err)
	}
	keys, err := client.Keys(t.Context(), keyspace.Prefix(0)+"h:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v; want one", keys, err)
	}
	if life, err := client.PTTL(t.Context(), keys[0]).Result(); err != nil || life < agendas.Retention() {
		t.Errorf("it is remembered for %s, %v; what ended is kept for %s", life, err, agendas.Retention())
	}
}
