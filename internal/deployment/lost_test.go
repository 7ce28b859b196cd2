package deployment_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// durable returns the settings of processes on a Redis and a database, by their number of partitions.
func durable(t *testing.T) (of func(partitions int) *settings.Resolved, client *redis.Client) {
	t.Helper()
	url, database := redistest.URL(t), postgrestest.URL(t)
	of = func(partitions int) *settings.Resolved {
		cfg := on(t, url, partitions)
		cfg.Setup, cfg.DatabaseURL = settings.SetupDurable, database
		return cfg
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client = redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return of, client
}

// works opens a deployment as a dispatcher and builds its partitions.
func works(t *testing.T, cfg *settings.Resolved) {
	t.Helper()
	d, err := open(t, cfg, parse(t, onePolicy))
	if err == nil {
		_, err = d.Relay.RebuildLost(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// While Redis has lost its data, a producer learns the number of partitions from Postgres. Its own setting is for
// deployments that have never worked: it must reach neither the producer's hash nor the dispatchers.
func TestAProducerAsksPostgresForThePartitionsThatRedisHasLost(t *testing.T) {
	t.Parallel()
	of, client := durable(t)
	works(t, of(8))
	if err := client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	cfg := of(16)
	if attach(t, cfg); cfg.Partitions != 8 {
		t.Errorf("the producer uses %d partitions, want 8", cfg.Partitions)
	}
	if n, err := deployment.Partitions(t.Context(), client); n != 0 || err != nil {
		t.Errorf("the producer wrote %d partitions, %v; want none", n, err)
	}
	works(t, of(8))
	if n, err := deployment.Partitions(t.Context(), client); n != 8 || err != nil {
		t.Errorf("the dispatcher wrote %d partitions, %v; want 8", n, err)
	}
}

// Before anything was built, the first process decides, a producer too.
func TestPostgresKnowsNoPartitionsBeforeTheyAreBuilt(t *testing.T) {
	t.Parallel()
	of, _ := durable(t)
	attach(t, of(4))
	_, err := open(t, of(8), parse(t, onePolicy))
	refused(t, err, "has 4 partitions")
}

// A producer that does not know of Postgres may have written its own number after a loss. The dispatchers start all the
// same.
func TestAWrongNumberOfPartitionsIsCorrected(t *testing.T) {
	t.Parallel()
	of, client := durable(t)
	works(t, of(8))
	if err := client.Set(t.Context(), "pacer:partitions", 16, 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, of(32), parse(t, onePolicy))
	refused(t, err, "has 16 partitions")
	works(t, of(8))
	if n, err := deployment.Partitions(t.Context(), client); n != 8 || err != nil {
		t.Errorf("in Redis are %d partitions, %v; want 8", n, err)
	}
}

// A rebuild by command does not know the policy that Redis has lost: it would count too few admissions again under a
// policy with shorter windows. So it refuses, unless it is told. It publishes how many partitions there are, and leaves
// the policy to the dispatchers.
func TestARebuildByCommandPublishesNoPolicyOfItsOwn(t *testing.T) {
	t.Parallel()
	of, client := durable(t)
	works(t, of(8))
	if err := client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := deployment.Rebuild(t.Context(), of(16), quiet)
	refused(t, err, "Redis has lost the policy, which a rebuild needs: start a dispatcher")
	cfg := of(16)
	cfg.Policy = filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(cfg.Policy, []byte(onePolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := deployment.Rebuild(t.Context(), cfg, quiet); err != nil {
		t.Fatal(err)
	}
	if n, err := deployment.Partitions(t.Context(), client); n != 8 || err != nil {
		t.Errorf("in Redis are %d partitions, %v; want 8", n, err)
	}
	if p, err := deployment.Policy(t.Context(), client); p != nil || err != nil {
		t.Errorf("published is %v, %v; want none", p, err)
	}
}

// What a dispatcher published comes back, whoever rebuilt what else Redis has lost.
func TestADispatcherPublishesAgainWhatRedisHasLost(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	cfg := on(t, url, 8)
	cfg.Templates = templates(t, map[string]string{"hi/default/body.txt": "hello"})
	d, err := open(t, cfg, parse(t, onePolicy))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.Publisher().Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	client := d.Redis.Client
	keys := []string{"pacer:partitions", "pacer:policy", "pacer:channels", "pacer:templates"}
	for _, lost := range [][]string{keys, keys[:1], keys[1:2], keys[2:3]} {
		if n := client.Del(t.Context(), lost...).Val(); n != int64(len(lost)) {
			t.Fatalf("of %q, %d were published", lost, n)
		}
		deadline := time.Now().Add(time.Minute)
		for ; client.Exists(t.Context(), keys...).Val() < int64(len(keys)); <-time.After(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q never come back", lost)
			}
		}
	}
}
