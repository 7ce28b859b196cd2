package app_test

import (
	"path/filepath"
	"testing"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// durable is a fleet on servers of its own, which tests may do to what they like.
type durable struct {
	*fleet
	redis    *redistest.Server
	postgres *postgrestest.Server
	receiver *receiver
}

func newDurable(t *testing.T) *durable {
	t.Helper()
	d := &durable{redis: redistest.Start(t), postgres: postgrestest.Start(t), receiver: newReceiver(t)}
	d.postgres.Migrate()
	d.fleet = &fleet{
		t: t, redisURL: d.redis.URL(), databaseURL: d.postgres.URL(), policy: filepath.Join(t.TempDir(), "policy.yaml"),
	}
	d.writePolicy(crowdPolicy)
	return d
}
