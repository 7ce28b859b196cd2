package redis_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(testing.TB) *goredis.Client{
		"Redis": redistest.Client, "Embedded": redistest.Embedded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(tb testing.TB) storetest.Subject { return subject(tb, client(tb)) })
		})
	}
}

func subject(tb testing.TB, client *goredis.Client) storetest.Subject {
	tb.Helper()
	agendas := agendasOf(tb, client, storetest.Lease)
	return storetest.Subject{
		Want: func(_ context.Context, types []events.Type) error { return agendas.Events.Want(types) },
		Events: func(ctx context.Context) ([]events.Event, error) {
			if err := redis.GatherEvents(ctx, client, agendas); err != nil {
				return nil, err
			}
			return events.NewStore(redis.NewRecords(client)).After(ctx, 0, 100)
		},
		Store:    redis.New(client, agendas),
		Crashing: redis.New(client, agendasOf(tb, client, storetest.ShortLease)),
		Repair: func(ctx context.Context) error {
			for partition := range storetest.Partitions {
				if _, err := agendas.Sweep(ctx, partition); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func agendasOf(tb testing.TB, client *goredis.Client, lease time.Duration) *agenda.Agendas {
	tb.Helper()
	agendas, err := agenda.New(client, agenda.Config{
		Partitions: storetest.Partitions, Settings: storetest.Settings, Lease: lease,
		MaxCrashes: storetest.MaxCrashes,
		Grace:      100 * time.Millisecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return agendas
}

// Wherever the process dies that moves events to the log, the next one neither loses nor doubles any.
func TestEventsAreMovedOnce(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	s, agendas := subject(t, client), agendasOf(t, client, storetest.Lease)
	if err := s.Want(t.Context(), []events.Type{events.Cancelled}); err != nil {
		t.Fatal(err)
	}
	dead := errors.New("dead")
	for i, written := range []bool{false, true, false, true} {
		n := &notification.Notification{
			ID: strconv.Itoa(i), UserID: "ada", Category: "free", Channel: "log", Priority: 1,
		}
		_, err := s.Accept(t.Context(), []*notification.Notification{n})
		if err := errors.Join(err, s.Cancel(t.Context(), n.ID)); err != nil {
			t.Fatal(err)
		}
		partition := agendas.PartitionOf(n.UserID)
		err = agendas.Events.Each(t.Context(), partition, func(name string, some []events.Event) (err error) {
			if written {
				err = redis.MoveEvents(t.Context(), client, partition, name, some)
			}
			return errors.Join(err, dead)
		})
		if err == nil || strings.TrimSpace(err.Error()) != dead.Error() {
			t.Errorf("it dies of %v", err)
		}
	}
	all, err := s.Events(t.Context())
	for i, e := range all {
		if e.NotificationID != strconv.Itoa(i) || e.Sequence != int64(i+1) {
			t.Errorf("event %d is %+v", i+1, e)
		}
	}
	if len(all) != 4 || err != nil {
		t.Errorf("the log has %d events, %v", len(all), err)
	}
}
