package queue_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// A worker that is killed takes no tick with it: the tick stays noted as being worked on, and comes again when its lease
// has ended, without having cost anything.
func TestKilledWorkerLeavesItsTick(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	conn := own.Client(t)
	enqueue(t, conn, tickIn(0, "n-1"))

	worker := exec.CommandContext(t.Context(), os.Args[0])
	worker.Env = append(os.Environ(), workerURL+"="+own.URL())
	worker.Stderr = os.Stderr
	stdin, err := worker.StdinPipe() // ends with this process, and the worker with it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }() // the worker is gone by then
	stdout, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if pulled := strings.TrimSpace(line); err != nil || pulled != "n-1" {
		t.Errorf("the worker pulled %q (%v), want n-1", pulled, err)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err == nil {
		t.Error("the worker ended well although it was killed")
	}
	if w := look(t, conn, 0); !cmp.Equal(w, where{Active: []string{"n-1"}}) {
		t.Fatalf("after the crash the lane holds %+v, want n-1 active", w)
	}

	// Time goes by: asynq takes a task back when its lease ended half a minute ago.
	ended := redis.Z{Member: "n-1", Score: float64(time.Now().Add(-time.Minute).Unix())}
	if n, err := conn.ZAddXX(t.Context(), "asynq:{push-0}:lease", ended).Result(); err != nil || n != 0 {
		t.Fatalf("move the lease: %d added (%v)", n, err)
	}
	type run struct {
		tick    dispatch.Tick
		retried int
	}
	runs := make(chan run, 2)
	serve(t, conn, queue.ServerConfig{Lanes: 1}, func(_ context.Context, tick dispatch.Tick) error {
		runs <- run{tick, inspect(t, conn, 0, tick.ID).Retried}
		return nil
	})
	got := receive(t, "the tick to come again", runs)
	if want := (run{tick: tickIn(0, "n-1")}); got != want {
		t.Errorf("it came again as %+v, want %+v", got, want)
	}
	await(t, "the tick is used up", func() bool { return cmp.Equal(look(t, conn, 0), where{}) })
	wantUncounted(t, conn, 0)
	if len(runs) != 0 {
		t.Error("the tick came a third time")
	}
}
