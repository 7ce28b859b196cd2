package redis_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(testing.TB) *goredis.Client{
		"Redis": redistest.Client, "Miniredis": redistest.Mini,
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
