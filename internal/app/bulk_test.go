package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/test/apitest"
)

// bulk posts an order to a process's ops pages, and reads the response into what is given.
func (d *fleet) bulkOrder(process *app.App, o desk.BulkOrder, into any) {
	d.t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		d.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://"+process.OpsAddr()+"/bulk",
		bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	response, err := apitest.Client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		d.t.Fatalf("%+v: %s %s, %v", o, response.Status, text, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		d.t.Fatal(err)
	}
}

// Everything that failed while a receiver refused is sent again in one step, once: the same order again finds nothing
// to do.
func TestWhatFailedIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			const n = 70
			d, r := newDeployment(t, on, crowdPolicy, 2), newReceiver(t)
			var well atomic.Bool
			r.respond = func(_ arrival, w http.ResponseWriter) {
				if !well.Load() {
					w.WriteHeader(http.StatusGone)
				}
			}
			var items []item
			for i := range n {
				items = append(items, r.crowd("user"+string(rune('a'+i%20))+string(rune('a'+i/20)), "default", 1)...)
			}
			d.bulk(items)
			d.awaitStats("all failed", func(s stats) bool { return s.Totals.Failed == n })
			well.Store(true)
			for round, want := range []desk.BulkJob{{Done: n}, {Skipped: n}} {
				order := desk.BulkOrder{
					Action: desk.ActionRetry, Filter: "reason=target_gone&host=127.0.0.1", Why: "well again",
				}
				var count desk.BulkCount
				d.bulkOrder(d.apps[0], order, &count)
				if count.Count != n || count.More {
					t.Fatalf("counted %+v, want %d", count, n)
				}
				order.Filter, order.Confirm = count.Filter, count.Confirm
				var job desk.BulkJob
				d.bulkOrder(d.apps[1], order, &job)
				deadline := time.Now().Add(patience)
				for ; job.Status == control.JobRunning; <-time.After(20 * time.Millisecond) {
					if err := json.Unmarshal([]byte(d.opsPage(d.apps[0], "/bulk/"+job.ID)), &job); err != nil {
						t.Fatal(err)
					}
					if time.Now().After(deadline) {
						t.Fatalf("the job does not end: %+v", job)
					}
				}
				if job.Status != control.JobDone || job.Done != want.Done || job.Skipped != want.Skipped ||
					job.Refused != 0 {
					t.Errorf("round %d: the job is %+v", round, job)
				}
			}
			d.awaitStats("all delivered", func(s stats) bool {
				return s.Totals.Delivered == n && s.Totals.Accepted == 2*n
			})
			var history desk.History
			if err := json.Unmarshal([]byte(d.opsPage(d.apps[0], "/history?since=2h")), &history); err != nil {
				t.Fatal(err)
			}
			var accepted, delivered, failed int64
			for _, h := range history.Hours {
				accepted, delivered, failed = accepted+h.Accepted, delivered+h.Delivered, failed+h.Failed
			}
			if accepted != 2*n || delivered != n || failed != n {
				t.Errorf("the history is %+v", history)
			}
			if log := d.opsPage(d.apps[0], "/audit"); !strings.Contains(log, "bulk retry done") ||
				!strings.Contains(log, "well again") {
				t.Errorf("the audit log is %s", log)
			}
		})
	}
}
