package app_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// poolers are the ways in which PgBouncer deals with the settings of a connection: by default it refuses those that it
// does not know, and it can be told to take no notice of them.
var poolers = map[string][]string{
	"Refusing": nil,
	"Ignoring": {"ignore_startup_parameters = " + strings.Join(slices.Collect(maps.Keys(postgres.SessionParams())), ",")},
}

// In transaction mode each transaction runs on whatever connection is free: no prepared statement, setting or lock of a
// session outlives it. Two processes migrate, accept, deliver, lose Redis and rebuild behind one.
func TestThroughPgBouncer(t *testing.T) {
	t.Parallel()
	for name, settings := range poolers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.PgBouncer(t, postgrestest.EmptyURL(t), settings...)
			if err := postgres.Migrate(t.Context(), url, migrations.Up); err != nil {
				t.Fatal(err)
			}
			d, r := &fleet{
				t: t, redisURL: redistest.URL(t), databaseURL: url, policy: filepath.Join(t.TempDir(), "policy.yaml"),
			}, newReceiver(t)
			d.writePolicy(crowdPolicy)
			d.start()
			d.start()
			var items []item
			for user := range 40 {
				items = append(items, r.crowd(fmt.Sprint("user", user), "default", 5)...)
			}
			d.bulk(items)
			r.await(t, len(items))
			d.awaitStats("all delivered", func(s stats) bool { return s.Totals.Delivered == int64(len(items)) })
			slow := d.bulk(r.crowd("ada", "slow", 2))
			r.await(t, len(items)+1)
			d.flushRedis()
			d.awaitStats("one deferred again", func(s stats) bool { return s.Deferred == 1 })
			d.awaitView(slow[1], "deferred", "limit 1/1h")
			if done, err := deployment.Rebuild(t.Context(), d.settings(), slog.New(slog.DiscardHandler)); err != nil ||
				done.Waiting != 1 {
				t.Fatalf("rebuilt %+v, %v", done, err)
			}
			if n := len(r.got()); n != len(items)+1 {
				t.Errorf("%d were delivered, want %d", n, len(items)+1)
			}
		})
	}
}

// A second process on the same database is refused behind PgBouncer too, and takes over once the first has ended.
func TestOneNodeIsAloneThroughPgBouncer(t *testing.T) {
	t.Parallel()
	d, r := oneNode(t), newReceiver(t)
	d.databaseURL = postgrestest.PgBouncer(t, d.databaseURL)
	first := d.startWith(d.oneNodeSettings())
	d.bulk(r.crowd("ada", "default", 20))
	r.await(t, 20)
	if _, err := app.New(t.Context(), d.oneNodeSettings(), slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("two processes have one database to themselves")
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.apps = nil
	d.startWith(d.oneNodeSettings())
	if status := d.call(http.MethodGet, "/v1/stats", nil, nil, nil); status != http.StatusOK {
		t.Errorf("stats: status %d", status)
	}
}

// flushRedis loses all of Redis.
func (d *fleet) flushRedis() {
	d.t.Helper()
	options, err := goredis.ParseURL(d.redisURL)
	if err != nil {
		d.t.Fatal(err)
	}
	client := goredis.NewClient(options)
	defer func() { _ = client.Close() }()
	if err := client.FlushDB(d.t.Context()).Err(); err != nil {
		d.t.Fatal(err)
	}
}
