package app_test

import (
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// unusedRedis is the Redis of a deployment that has it in its own process.
const unusedRedis = "redis://unused"

// oneNode is a deployment of one process, whose Redis is gone when it ends.
func oneNode(t *testing.T) *fleet {
	t.Helper()
	d := &fleet{
		t: t, redisURL: unusedRedis,
		databaseURL: postgrestest.URL(t),
		policy:      filepath.Join(t.TempDir(), "policy.yaml"),
	}
	d.writePolicy(crowdPolicy)
	return d
}

func (d *fleet) oneNodeSettings() *settings.Resolved {
	d.t.Helper()
	s := d.settings()
	s.Setup, s.Redis = settings.SetupDurableOneNode, nil
	return s
}

// All of its Redis is gone with each process. The next one goes on where it stood: what waited goes out, once, and the
// window that was full is full.
func TestOneNodeOutlivesItsRedis(t *testing.T) {
	t.Parallel()
	d, r := oneNode(t), newReceiver(t)
	first := d.startWith(d.oneNodeSettings())
	slow := d.bulk(r.crowd("ada", "slow", 2))
	r.await(t, 1)
	d.awaitStats("one deferred", func(s stats) bool { return s.Deferred == 1 && s.Totals.Delivered == 1 })
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.apps = nil
	d.startWith(d.oneNodeSettings())
	quick := d.bulk(r.crowd("ben", "default", 3))
	r.await(t, 4)
	s := d.awaitStats("all but one delivered", func(s stats) bool { return s.Deferred == 1 && s.Totals.Delivered == 4 })
	if s.Totals.Accepted != 5 {
		t.Errorf("totals %+v, want 5 accepted", s.Totals)
	}
	d.awaitView(slow[1], "deferred", "limit 1/1h")
	if status := d.call(http.MethodDelete, "/v1/users/ada/throttle?category=slow", nil, nil, nil); status != http.StatusNoContent {
		t.Fatalf("clear: status %d", status)
	}
	seen := map[string]int{}
	for _, a := range r.await(t, 5) {
		seen[a.ID]++
	}
	for _, id := range append(slow, quick...) {
		if seen[id] != 1 {
			t.Errorf("%s was delivered %d times", id, seen[id])
		}
	}
}

// The lock that keeps others away ends with its connection, so another process may be first to take it again.
func TestOneNodeEndsWhenAnotherHasItsDatabase(t *testing.T) {
	t.Parallel()
	d := oneNode(t)
	process, err := app.New(t.Context(), d.oneNodeSettings(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	conn := postgrestest.Connect(t, d.databaseURL)
	for other := false; !other; {
		if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "SELECT pg_try_advisory_lock($1)", 0x6e6f6465).Scan(&other); err != nil {
			t.Fatal(err)
		}
	}
	err = process.Run(t.Context())
	if refusal, ok := errors.AsType[*refusal.Error](err); !ok ||
		!strings.HasPrefix(refusal.Reason, "another process without REDIS_URL took this database over") {
		t.Errorf("it ends with %v, want a refusal", err)
	}
}
