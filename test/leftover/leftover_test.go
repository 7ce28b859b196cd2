package leftover_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/leftover"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestKeys(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	for key, ttl := range map[string]time.Duration{
		// fixed
		"pacer:partitions": 0, "pacer:{push-3}:c": 0, "asynq:{push-12}:processed": 0, "pacer:{processes}:all": 0,
		"pacer:{retime}": 0, "pacer:preferences:woken": 0,
		"pacer:{push-3}:n:gone": time.Hour, "asynq:{push-1}:processed:2026-01-01": time.Hour, // of some time
		"pacer:{push-3}:n:left": 0, "pacer:{push-3}:w:chat:ada": 0, "asynq:{push-1}:t:left": 0, "other": 0,
	} {
		if err := client.Set(t.Context(), key, "x", ttl).Err(); err != nil {
			t.Fatal(err)
		}
	}
	left, err := leftover.Keys(t.Context(), client)
	slices.Sort(left)
	want := []string{"asynq:{push-1}:t:left", "other", "pacer:{push-3}:n:left", "pacer:{push-3}:w:chat:ada"}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %q (%v), want %q", left, err, want)
	}
}

func TestGoroutines(t *testing.T) { //nolint:paralleltest // goroutines of other tests would be counted too
	server := httptest.NewServer(http.HandlerFunc(pprof.Index))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	ask := func() int {
		n, err := leftover.Goroutines(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, stop := ask(), make(chan struct{})
	const more = 50
	for range more {
		go func() { <-stop }()
	}
	// Some of those before, such as of other tests, may have ended, and the server's own come and go.
	if n := ask(); n < before+more-10 || n > before+more+10 {
		t.Errorf("%d goroutines are counted, want about %d and %d more", n, before, more)
	}
	close(stop)
}
