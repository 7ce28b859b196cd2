//go:build accept

package e2e_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A healthy deployment shows no difference between its stores in a hundred comparisons, while it accepts, delivers,
// retries and cancels.
func TestVerifyFindsNothingInABusyDeployment(t *testing.T) {
	const runs = 100
	server, database := redistest.Start(t), postgrestest.Start(t)
	database.Migrate()
	d := &deployment{
		t: t, redis: server, url: server.URL(), database: database.URL(),
		policy: policyFile(t, "version: 1\ncategories:\n  default: {limits: [{max: 5, per: 2s}, {max: 20, per: 1m}]}\n"+
			"  free: {}\nuser_cap: {limits: [{max: 40, per: 10s}]}\n"+
			"retry: {max_attempts: 3, min_backoff: 50ms, max_backoff: 200ms}\n"),
	}
	d.workers = []*worker{d.start(), d.start()}
	r := newReceiver(t)
	var replied atomic.Int64
	r.respond = func(w http.ResponseWriter) {
		if n := replied.Add(1); n%10 == 0 {
			w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[n/10%2])
		}
	}
	var busy atomic.Bool
	busy.Store(true)
	var load sync.WaitGroup
	for _, w := range d.workers {
		load.Go(func() {
			for n := 0; busy.Load(); n++ {
				items := make([]item, 100)
				for i := range items {
					items[i] = item{
						UserID: "user-" + strconv.Itoa((n*100+i)%3000), Category: []string{"default", "free"}[i%2], To: r.server.URL,
					}
				}
				d.cancelSome(w, d.accept(w, items))
				<-time.After(200 * time.Millisecond) // the comparisons need some of the machine, too
			}
		})
	}
	begin, differed := time.Now(), 0
	for run := range runs {
		verify := exec.CommandContext(t.Context(), dispatcherPath, "rebuild", "--verify")
		verify.Env = append(os.Environ(), "REDIS_URL="+d.url, "DATABASE_URL="+d.database)
		var told bytes.Buffer
		verify.Stdout, verify.Stderr = &told, &told
		if err := verify.Run(); err != nil {
			differed++
			t.Errorf("run %d: %v\n%s", run, err, told.String())
		}
		if (run+1)%10 == 0 {
			t.Logf("%d runs in %s, %d with differences", run+1, time.Since(begin), differed)
		}
	}
	took := time.Since(begin)
	busy.Store(false)
	load.Wait()
	ended := d.stats(d.workers[0]).Totals
	t.Logf("%d runs in %s beside %d accepted and %d delivered: %d with differences", runs, took, ended.Accepted,
		ended.Delivered, differed)
}

// cancelSome cancels every twentieth notification.
func (d *deployment) cancelSome(w *worker, ids []string) {
	for i := 0; i < len(ids); i += 20 {
		url := "http://" + w.api + "/v1/notifications/" + ids[i]
		request, err := http.NewRequestWithContext(d.t.Context(), http.MethodDelete, url, http.NoBody)
		if err != nil {
			d.t.Error(err)
			return
		}
		if response, err := apitest.Client.Do(request); err == nil {
			_ = response.Body.Close()
		}
	}
}
