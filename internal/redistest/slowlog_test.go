package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/redistest"
)

// busy works for a good tenth of a second.
const busy = "local n = 0 for i = 1, 2e7 do n = n + i end return n"

func TestASlowScriptIsFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	if err := client.Eval(t.Context(), busy+" -- before", nil).Err(); err != nil {
		t.Fatal(err)
	}
	watch := server.WatchScripts(t)
	// By the hash too, since that is how scripts are run.
	for range 2 {
		if err := redis.NewScript(busy).Run(t.Context(), client, []string{"key"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	log := watch.End()
	over := log.Over(10 * time.Millisecond)
	if len(over) != 2 {
		t.Fatalf("over the limit are %v, want both runs of the script since the watch began", over)
	}
	for _, step := range over {
		if !strings.Contains(step.What, "key") || strings.Contains(step.What, "before") {
			t.Errorf("what is noted is %q", step.What)
		}
	}
	if log.Slowest() != over[0] {
		t.Errorf("the slowest is %v, over the limit are %v", log.Slowest(), over)
	}
}

func TestQuickScriptsAreWithinTheLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, watch := server.Client(t), server.WatchScripts(t)
	for range 500 {
		if err := client.Eval(t.Context(), "return redis.call('INCR', KEYS[1])", []string{"n"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if over := watch.End().Over(10 * time.Millisecond); len(over) > 0 {
		t.Errorf("over the limit are %v", over)
	}
}

func TestARestartedServerIsWatched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	watch := server.WatchScripts(t)
	server.Restart()
	client := server.Client(t)
	// The watch has settled on the new server when it has set how long a slow command is.
	for client.ConfigGet(t.Context(), "slowlog-log-slower-than").Val()["slowlog-log-slower-than"] != "1000" {
		<-time.After(10 * time.Millisecond)
	}
	if err := client.Eval(t.Context(), busy, nil).Err(); err != nil {
		t.Fatal(err)
	}
	if over := watch.End().Over(10 * time.Millisecond); len(over) != 1 {
		t.Errorf("over the limit are %v, want one", over)
	}
}
