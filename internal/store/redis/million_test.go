//go:build accept

package redis_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// plantDelivered writes ARGV[2] delivered notifications of 10,000 users, from number ARGV[1] on, into 16 partitions. Of
// each user one was admitted every 40 s, the latest at ARGV[3].
const plantDelivered = `
for i = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do
  local user = i % 10000
  redis.call('HSET', 'pacer:{push-' .. user % 16 .. '}:n:0190a5b4-0000-7000-8000-' .. string.format('%012d', i),
    'u', 'user' .. user, 'c', 'chat', 'p', '3', 'v', '1000', 's', 'D', 'P', 'v1', 'b', '{"c":"log","h":"A title"}',
    'm', string.format('%.0f', ARGV[3] - math.floor(i / 10000) * 40000000))
end
return 1`

// The checker goes through a million delivered notifications, and finds what it should, in bounded memory.
func TestAMillionDelivered(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 16, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	const step = 5000
	for i := 0; i < 1_000_000; i += step {
		if err := client.Eval(t.Context(), plantDelivered, nil, i, step, now.UnixMicro()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	rule := throttle.Rule{Max: 80, Per: time.Hour}
	store := redis.New(client, agendas)
	violations := storetest.CheckMany(t, store, now.Add(-30*time.Second), now.Add(time.Second), rule)
	if violations != 10_000 {
		t.Errorf("%d violations, want the latest of each user", violations)
	}
}
