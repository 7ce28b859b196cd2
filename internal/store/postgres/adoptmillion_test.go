//go:build accept

package postgres_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/adopt"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// plantKept writes ARGV[2] delivered notifications of 10,000 users, from number ARGV[1] on, and for each an admission
// in the log of its user's category. ARGV[3] is now in µs.
var plantKept = keyspace.Spell(`
for i = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do
  local user = 'user' .. i % 10000
  local at = string.format('%.0f', ARGV[3] - math.floor(i / 10000) * 40000000)
  redis.call('HSET', 'pacer:{push-0}:n:kept' .. i, F.user, user, F.category, 'chat', F.priority, '3', F.arrival, i,
    F.accepted, at, F.state, S.delivered, F.payload, '{"c":"log","h":"A title"}', F.admitted, at,
    F.generation, '1', F.ended, at)
  redis.call('ZADD', 'pacer:{push-0}:l:chat:' .. user, at, 'kept' .. i .. '#1')
end
return 1`)

// A new database adopts a million notifications in bounded memory.
func TestAMillionAdopted(t *testing.T) {
	t.Parallel()
	pool, _ := newDatabase(t)
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	const all, step = 1_000_000, 5000
	for i := 0; i < all; i += step {
		if err := client.Eval(t.Context(), plantKept, nil, i, step, time.Now().UnixMicro()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	storetest.WantSmallHeap(t, "adoption", func() {
		done, err := adopt.Into(t.Context(), pool, agendas, func(to *adopt.Adoption) error {
			err := redis.New(client, agendas).EachKept(t.Context(),
				func(states []*agenda.State, content []*notification.Notification) error {
					return to.Take(t.Context(), states, content)
				})
			if err != nil {
				return err
			}
			return maintenance.Of(agendas).EachLogged(t.Context(), func(logged []maintenance.Logged) error {
				return to.Count(t.Context(), logged, []string{"chat"})
			})
		})
		if err != nil || done.Notifications != all || done.Admissions != all {
			t.Errorf("adopted %+v, %v", done, err)
		}
	})
}
