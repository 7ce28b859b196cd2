package redis_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/internal/record/redis"
	"github.com/pacer-notify/pacer/internal/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(testing.TB) *goredis.Client{"Redis": redistest.Client, "Miniredis": redistest.Mini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recordtest.Run(t, func(tb testing.TB) recordtest.Subject { return subject(tb, client(tb)) })
		})
	}
}

func subject(tb testing.TB, client *goredis.Client) recordtest.Subject {
	tb.Helper()
	boxes, err := agenda.New(client, agenda.Config{
		Lanes: recordtest.Lanes, Settings: recordtest.Settings, Lease: recordtest.Lease, MaxCrashes: recordtest.MaxCrashes,
		Grace: 100 * time.Millisecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return recordtest.Subject{Record: redis.New(client, boxes), Repair: func(ctx context.Context) error {
		for lane := range recordtest.Lanes {
			if _, err := boxes.Sweep(ctx, lane); err != nil {
				return err
			}
		}
		return nil
	}}
}
