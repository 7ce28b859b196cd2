package agenda_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// counters are those of ada's backlog, by an algorithm, in a store that restores them. They run on the server's clock,
// because a key whose windows have passed must go.
type counters struct {
	client  *redis.Client
	store   *agenda.Agendas
	backlog dispatch.Backlog
	now     time.Time
}

// eachOfCounters runs a test for each algorithm that counts, under five in 24 hours, and a user cap.
func eachOfCounters(t *testing.T, test func(t *testing.T, c *counters)) {
	t.Helper()
	for name, algorithm := range map[string]throttle.Algorithm{
		"FixedWindow": throttle.FixedWindow, "TokenBucket": throttle.TokenBucket,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Client(t)
			plan := throttle.Plan{Algorithm: algorithm, Rules: []throttle.Rule{
				{Max: 5, Per: 24 * time.Hour}, {Max: 10, Per: 24 * time.Hour, Kind: throttle.KindCap},
			}}
			store, err := agenda.New(client, agenda.Config{
				Partitions: partitions, Guarded: true, Lease: lease,
				Settings: func(string, string) agenda.Settings { return agenda.Settings{Plan: plan} },
			})
			if err != nil {
				t.Fatal(err)
			}
			test(t, &counters{
				client: client, store: store, backlog: dispatch.BacklogOf("ada", "chat", partitions), now: time.Now(),
			})
		})
	}
}

// restore restores parts in a rebuild of its own, and returns the hash of the counters, and with it the cap's log.
func (c *counters) restore(t *testing.T, parts ...agenda.WindowPart) map[string]string {
	t.Helper()
	if err := beginRebuild(t.Context(), c.store, []int{c.backlog.Partition}, "token"); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if err := c.store.RestoreWindow(t.Context(), "token", c.backlog, part); err != nil {
			t.Fatal(err)
		}
	}
	prefix := keyspace.Prefix(c.backlog.Partition)
	keys, err := c.client.Keys(t.Context(), prefix+"*:chat:ada").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys: %v, %v", keys, err)
	}
	hash, err := c.client.HGetAll(t.Context(), keys[0]).Result()
	if err != nil {
		t.Fatal(err)
	}
	log, err := c.client.ZRangeWithScores(t.Context(), prefix+"u:ada", 0, -1).Result()
	if err != nil || len(log) == 0 {
		t.Fatalf("the cap's log: %v, %v", log, err)
	}
	hash["cap"] = fmt.Sprint(log)
	return hash
}

// before gives admissions of so many hours ago.
func (c *counters) before(hours ...int) []agenda.Admission {
	admitted := make([]agenda.Admission, len(hours))
	for i, h := range hours {
		admitted[i].At = throttle.MicrosOf(c.now.Add(-time.Duration(h) * time.Hour))
	}
	return admitted
}

// Wherever the admissions of a backlog are cut, and when each part is sent again because its reply was lost, the
// counters become what they are without a cut. Some of the windows have passed by now, and end between two parts.
func TestCountersAreRestoredInPartsAsInOne(t *testing.T) {
	t.Parallel()
	eachOfCounters(t, func(t *testing.T, c *counters) {
		all := c.before(80, 79, 78, 77, 76, 50, 30, 25, 25, 23, 22, 10, 1)
		want := c.restore(t, agenda.WindowPart{Admitted: all})
		for cut := 1; cut < len(all); cut++ {
			first := agenda.WindowPart{Admitted: all[:cut], More: true}
			second := agenda.WindowPart{Admitted: all[cut:], Before: cut}
			if diff := cmp.Diff(want, c.restore(t, first, first, second, second)); diff != "" {
				t.Errorf("cut behind %d, and sent twice (-want +got):\n%s", cut, diff)
			}
		}
	})
}

// Parts that come out of order are refused: counters can't take in what was before.
func TestCountersAreNotRestoredOutOfOrder(t *testing.T) {
	t.Parallel()
	eachOfCounters(t, func(t *testing.T, c *counters) {
		older := agenda.WindowPart{Admitted: c.before(10, 9), More: true}
		newer := agenda.WindowPart{Admitted: c.before(1), Before: 2}
		want := c.restore(t, newer)
		if err := c.store.RestoreWindow(t.Context(), "token", c.backlog, older); err == nil {
			t.Error("the older part was taken")
		}
		skipping := agenda.WindowPart{Admitted: c.before(0), Before: 7}
		if err := c.store.RestoreWindow(t.Context(), "token", c.backlog, skipping); err == nil {
			t.Error("a part was left out")
		}
		if diff := cmp.Diff(want, c.restore(t, newer)); diff != "" {
			t.Errorf("counters (-want +got):\n%s", diff)
		}
	})
}
