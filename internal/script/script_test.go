package script_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/test/redistest"
)

// nested returns an error inside a list, as no script may: go-redis leaves what follows the error unread.
const nested = `
local oom = redis.error_reply("OOM command not allowed when used memory > 'maxmemory'.")
return { oom, ARGV[1], "second", "third" }`

func TestResults(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	for source, want := range map[string]any{
		`return 7`:                          int64(7),
		`return ARGV[1] .. #ARGV`:           "one1",
		`return { 1, 'a', {} }`:             []any{int64(1), "a", []any{}},
		`return {}`:                         []any{},
		`return nil`:                        redis.Nil,
		`return false`:                      redis.Nil,
		`return redis.status_reply('FINE')`: "FINE",
		`return redis.error_reply('NOEPOCH lost')`:                                              "NOEPOCH lost",
		`return redis.call('GET', KEYS[1])`:                                                     redis.Nil,
		`redis.call('HSET', KEYS[1] .. '2', 'a', 'b') return redis.call('GET', KEYS[1] .. '2')`: "WRONGTYPE",
	} {
		got, err := script.New(source).Run(t.Context(), client, []string{"key"}, "one").Result()
		switch wanted := want.(type) {
		case error:
			if !errors.Is(err, wanted) {
				t.Errorf("%s: got %v and %v, want %v", source, got, err, wanted)
			}
		default:
			if text, ok := want.(string); err != nil && ok && strings.HasPrefix(err.Error(), text) {
				continue
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", source, err, diff)
			}
		}
	}
}

// shared is a pipeline over one connection, without and with the means to close that.
func shared(t *testing.T, addr string) (pipe, watched redis.UniversalClient) {
	t.Helper()
	options := &redis.UniversalOptions{Addrs: []string{addr}}
	connections := script.Watch(options)
	client := redis.NewClient(options.Simple())
	t.Cleanup(func() { _ = client.Close() })
	how := redis.DefaultBlockingAutoPipelineOptions()
	how.FullDuplex = true
	pipe, err := client.AutoPipelineWithOptions(how)
	if err != nil {
		t.Fatal(err)
	}
	return pipe, connections.On(pipe)
}

// A connection that is out of step gives nobody the reply to another request. It is closed as soon as that is noticed.
func TestAConnectionOutOfStepIsClosed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, client := shared(t, server.Addr())
	own := script.New(`return ARGV[1]`)
	const callers = 200
	var all sync.WaitGroup
	foreign, refused := make([]bool, callers), make([]bool, callers)
	for i := range callers {
		if i%20 == 0 {
			all.Go(func() { _ = client.Eval(context.Background(), nested, nil, "somebody").Err() })
		}
		all.Go(func() {
			got, err := own.Run(context.Background(), client, nil, strconv.Itoa(i)).Text()
			foreign[i], refused[i] = err == nil && got != strconv.Itoa(i), err != nil
		})
	}
	all.Wait()
	for i := range callers {
		if foreign[i] {
			t.Errorf("caller %d got another's reply", i)
		}
	}
	// The last connection out of step may be noticed only with the next request.
	_ = own.Run(t.Context(), client, nil, "next").Err()
	for i := range 50 {
		if got, err := own.Run(t.Context(), client, nil, strconv.Itoa(i)).Text(); err != nil || got != strconv.Itoa(i) {
			t.Fatalf("later the reply is %q, %v", got, err)
		}
	}
	t.Logf("%d of %d callers got an error", countTrue(refused), callers)
}

func countTrue(all []bool) (n int) {
	for _, one := range all {
		if one {
			n++
		}
	}
	return n
}

// Because of this fault of go-redis, scripts return no error inside a list, and every reply has a nonce: see
// docs/upstream.md. When this test fails, the fault has been fixed there.
func TestTheDriverLeavesNestedErrorsUnread(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := shared(t, server.Addr())
	if err := client.Eval(t.Context(), nested, nil, "somebody's").Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("the nested error is %v", err)
	}
	var got []string
	for i := range 3 {
		text, err := client.Echo(t.Context(), "mine "+strconv.Itoa(i)).Result()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"somebody's", "second", "third"}, got); diff != "" {
		t.Errorf("go-redis reads nested errors to their end now; tell so in docs/upstream.md (-the fault +got):\n%s",
			diff)
	}
}
