package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

// busy works for a good tenth of a second.
const busy = "local n = 0 for i = 1, 2e7 do n = n + i end return n"

// What is blamed is up to the machine, and the tests of package slowlog; what is seen is not.
func TestASlowScriptIsFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	if err := client.Eval(t.Context(), strings.ReplaceAll(busy, "2e7", "3e7"), []string{"before"}).Err(); err != nil {
		t.Fatal(err)
	}
	watch := server.WatchScripts(t)
	// By the hash too, since that is how scripts are run.
	if err := client.ScriptLoad(t.Context(), busy).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.EvalSha(t.Context(), redis.NewScript(busy).Hash(), []string{"key"}).Err(); err != nil {
		t.Fatal(err)
	}
	if slowest := watch.End().Slowest(); slowest.Took < 10*time.Millisecond ||
		!strings.Contains(slowest.What, "evalsha") || !strings.Contains(slowest.What, "key") {
		t.Errorf("the slowest is %v", slowest)
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
	// About a script that began as close to the restart as it takes long nothing is said.
	for range 5 {
		if err := client.Eval(t.Context(), busy, nil).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if slowest := watch.End().Slowest(); slowest.Took < 10*time.Millisecond {
		t.Errorf("the slowest is %v", slowest)
	}
}
