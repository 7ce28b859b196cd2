package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/test/redistest"
)

// patience bounds every wait of these tests; it is only reached when something is broken.
const patience = 2 * time.Minute

// run has a script write wake-ups of a partition, as those of the agendas do: with the functions that the product puts
// before them.
func run(t *testing.T, conn redis.UniversalClient, partition int, body string, args ...any) any {
	t.Helper()
	const before = `local function digits(n) return string.format('%.0f', n) end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local TELL = true
`
	reply, err := conn.Eval(t.Context(), before+queue.WakeupFunctions+body,
		[]string{fmt.Sprintf("pacer:{push-%d}:", partition)}, args...).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // it is never wrapped
		t.Fatal(err)
	}
	return reply
}

func texts(all []string) []any {
	args := make([]any, len(all))
	for i, s := range all {
		args[i] = s
	}
	return args
}

// pushPending puts wake-ups into a partition's queue, due at once.
func pushPending(t *testing.T, conn redis.UniversalClient, partition int, users ...string) {
	t.Helper()
	run(t, conn, partition, "push_pending(ARGV)", texts(users)...)
}

// schedule puts a wake-up where it is due at a second.
func schedule(t *testing.T, conn redis.UniversalClient, partition int, user string, at time.Time) {
	t.Helper()
	run(t, conn, partition, "schedule(ARGV[1], tonumber(ARGV[2]))", user, at.Unix())
}

// pull takes tasks off a partition's queue, and gives their ids.
func pull(t *testing.T, conn redis.UniversalClient, partition, n int) []string {
	t.Helper()
	reply, _ := run(t, conn, partition, `local ids = {}
for _, id in ipairs(pop_pending(tonumber(ARGV[1]))) do
  if message_of(id) then ids[#ids + 1] = id end
end
make_active(ids)
return ids`, n).([]any)
	var ids []string
	for _, id := range reply {
		ids = append(ids, fmt.Sprint(id))
	}
	return ids
}

// finish has active wake-ups be used up.
func finish(t *testing.T, conn redis.UniversalClient, partition int, users ...string) {
	t.Helper()
	now := time.Now().UTC()
	args := append([]any{now.Format(time.DateOnly), now.Add(90 * 24 * time.Hour).Unix()}, texts(users)...)
	run(t, conn, partition, "local users = { unpack(ARGV, 3) } acknowledge(users, users, ARGV[1], ARGV[2])", args...)
}

// serve runs a server until the test ends.
func serve(t *testing.T, conn redis.UniversalClient, cfg queue.ServerConfig) *queue.Server {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	server := queue.NewServer(conn, cfg)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// await waits until the condition holds; what says what is waited for.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("gave up waiting until %s", what)
		case <-ticker.C:
		}
	}
}

// receive waits for a value.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	patience := time.NewTimer(patience)
	defer patience.Stop()
	select {
	case v := <-from:
		return v
	case <-patience.C:
		t.Fatalf("gave up waiting for %s", what)
		panic("unreachable")
	}
}

// where lists, by place, the ids of a partition's tasks.
type where struct{ Pending, Active, Leased, Scheduled, Retry, Archived []string }

func look(t *testing.T, conn redis.UniversalClient, partition int) where {
	t.Helper()
	key := func(place string) string { return fmt.Sprintf("asynq:{push-%d}:%s", partition, place) }
	ctx := t.Context()
	pipe := conn.Pipeline()
	lists := []*redis.StringSliceCmd{
		pipe.LRange(ctx, key("pending"), 0, -1), pipe.LRange(ctx, key("active"), 0, -1),
		pipe.ZRange(ctx, key("lease"), 0, -1),
		pipe.ZRange(ctx, key("scheduled"), 0, -1), pipe.ZRange(ctx, key("retry"), 0, -1),
		pipe.ZRange(ctx, key("archived"), 0, -1),
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	ids := func(i int) []string {
		if len(lists[i].Val()) == 0 {
			return nil
		}
		return slices.Sorted(slices.Values(lists[i].Val()))
	}
	return where{ids(0), ids(1), ids(2), ids(3), ids(4), ids(5)}
}

// ofADay ends the name of a key that asynq has for each day.
var ofADay = regexp.MustCompile(`:\d{4}-\d\d-\d\d$`)

// contents of all keys of asynq's queues, but for the moments at which they were written.
func contents(t *testing.T, conn redis.UniversalClient) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, key := range conn.Keys(t.Context(), "asynq:{push-*").Val() {
		switch kind := conn.Type(t.Context(), key).Val(); kind {
		case "hash":
			fields := conn.HGetAll(t.Context(), key).Val()
			if since := fields["pending_since"]; fields["state"] == "pending" && len(since) != 19 {
				t.Errorf("%s is pending since %q", key, since)
			}
			delete(fields, "pending_since")
			all[key] = fields
		case "list":
			all[key] = conn.LRange(t.Context(), key, 0, -1).Val()
		case "zset":
			left := map[string]float64{} // in half minutes: what differs by more is not alike
			for _, z := range conn.ZRangeWithScores(t.Context(), key, 0, -1).Val() {
				left[fmt.Sprint(z.Member)] = math.Round(time.Until(time.Unix(int64(z.Score), 0)).Minutes() * 2)
			}
			all[key] = left
		case "string": // counters, some of a day: a test may run over midnight
			n, err := conn.Get(t.Context(), key).Int()
			if err != nil {
				t.Errorf("%s is no counter: %v", key, err)
			}
			name := ofADay.ReplaceAllString(key, ":DAY")
			before, _ := all[name].([2]int)
			all[name] = [2]int{before[0] + n, int(math.Round(conn.TTL(t.Context(), key).Val().Hours() / 24))}
		default:
			t.Errorf("%s is a %s", key, kind)
		}
	}
	return all
}

// inspectorOf is what asynq's tools are made on. They know the queues of some partitions.
func inspectorOf(t *testing.T, conn redis.UniversalClient, partitions int) *asynq.Inspector {
	t.Helper()
	if err := queue.NewClient(conn).Announce(t.Context(), partitions); err != nil {
		t.Fatal(err)
	}
	return asynq.NewInspectorFromRedisClient(conn)
}

// engines are the servers on which wake-ups are kept.
var engines = map[string]func(*testing.T) *redis.Client{
	"redis":    func(t *testing.T) *redis.Client { t.Helper(); return redistest.Client(t) },
	"embedded": func(t *testing.T) *redis.Client { t.Helper(); return redistest.Mini(t) },
}
