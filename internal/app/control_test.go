package app_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// act takes an action on a process's ops pages and returns the response's text.
func (d *fleet) act(process *app.App, want int, action ops.Action) string {
	d.t.Helper()
	body, err := json.Marshal(action)
	if err != nil {
		d.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://"+process.OpsAddr()+"/actions",
		bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("Pacer-Operator", "tester")
	response, err := apitest.Client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(response.Body)
	if response.StatusCode != want {
		d.t.Fatalf("%+v returned %s: %s", action, response.Status, &text)
	}
	return text.String()
}

func (d *fleet) snapshot(process *app.App) (s ops.Snapshot) {
	d.t.Helper()
	page := d.opsPage(process, "/snapshot")
	if err := json.Unmarshal([]byte(page), &s); err != nil {
		d.t.Fatalf("%v: %s", err, page)
	}
	return s
}

// awaitSnapshot waits until a process shows what is wanted.
func (d *fleet) awaitSnapshot(process *app.App, wanted func(ops.Snapshot) bool) ops.Snapshot {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		s := d.snapshot(process)
		if wanted(s) {
			return s
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("the snapshot is %+v", s)
		}
	}
}

// awaitPauses waits until a process's page shows so many pauses.
func (d *fleet) awaitPauses(process *app.App, n int) ops.Snapshot {
	d.t.Helper()
	return d.awaitSnapshot(process, func(s ops.Snapshot) bool { return len(s.Pauses) == n })
}

// awaitLogs waits until every process has logged a text so often.
func (d *fleet) awaitLogs(text string, times int) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		all := true
		for _, log := range d.processLogs {
			all = all && strings.Count(string(log.tail()), text) >= times
		}
		if all {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("not every process logged %q", text)
		}
	}
}

// What is paused waits in all processes, while the rest goes on, and goes out once it is resumed.
func pausedThingsWait(t *testing.T, on setup) {
	const partitions = 4
	partitionOf := func(user string) string {
		return strconv.Itoa(dispatch.BacklogOf(user, "default", partitions).Partition)
	}
	other := "ben"
	for i := 0; partitionOf(other) == partitionOf("ada"); i++ {
		other = "ben" + strconv.Itoa(i)
	}
	for name, c := range map[string]struct {
		pause      ops.Action
		held, free item
	}{
		"channel": {
			pause: ops.Action{Kind: "channel", Name: "webhook"},
			held:  item{"channel": "webhook"},
			free:  item{"channel": "log"},
		},
		"category": {
			pause: ops.Action{Kind: "category", Name: "urgent"},
			held:  item{"category": "urgent"},
			free:  item{"category": "default"},
		},
		"partition": {pause: ops.Action{Kind: "partition", Name: partitionOf("ada")}, free: item{"user_id": other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, r := newDeployment(t, on, crowdPolicy, 2), newReceiver(t)
			c.pause.Action, c.pause.Why = "pause", "a test"
			d.act(d.apps[1], http.StatusOK, c.pause)
			d.awaitLogs("deliveries are paused", 1)
			notify := func(with item) string {
				n := item{"user_id": "ada", "to": r.server.URL}
				maps.Copy(n, with)
				return d.bulk([]item{n})[0]
			}
			held := notify(c.held)
			free := notify(c.free)
			d.awaitStats("what is not paused is delivered", func(s stats) bool { return s.Totals.Delivered == 1 })
			if d.view(free).Status != "delivered" || d.view(held).Status == "delivered" {
				t.Errorf("the paused one is %+v, the other %+v", d.view(held), d.view(free))
			}
			// The page of another process than that of the action may be a second old.
			if s := d.awaitPauses(d.apps[0], 1); s.Pauses[0].Name != c.pause.Name || s.Pauses[0].Why != "a test" ||
				!strings.HasPrefix(s.Pauses[0].By, "tester (127.0.0.1)") {
				t.Errorf("the pauses are %+v", s.Pauses)
			}
			c.pause.Action = "resume"
			d.act(d.apps[0], http.StatusOK, c.pause)
			d.awaitStats("what was paused is delivered", func(s stats) bool { return s.Totals.Delivered == 2 })
			if v := d.view(held); v.Attempts != 1 {
				t.Errorf("being paused cost attempts: %+v", v)
			}
			d.act(d.apps[0], http.StatusConflict, c.pause)
			var trail []struct{ Action, Subject, Detail string }
			if err := json.Unmarshal([]byte(d.opsPage(d.apps[1], "/audit")), &trail); err != nil || len(trail) != 2 ||
				trail[0].Action != "resume" || trail[1].Detail != "a test" {
				t.Errorf("the audit log is %+v, %v", trail, err)
			}
		})
	}
}

// A partition goes on although the process died, or lost Redis, that was just letting it go on: no pause is left that
// nobody sees.
func noPartitionStaysPausedUnseen(t *testing.T, on setup) {
	d, r := newDeployment(t, on, crowdPolicy, 1), newReceiver(t)
	partition := strconv.Itoa(dispatch.BacklogOf("ada", "default", 4).Partition)
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "pause", Kind: "partition", Name: partition})
	d.bulk(r.crowd("ada", "default", 1))
	if err := d.apps[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.forgetPauses() // and then it died
	d.apps = nil
	d.start()
	d.awaitStats("what was paused is delivered", func(s stats) bool { return s.Totals.Delivered == 1 })
	if s := d.snapshot(d.apps[0]); len(s.Pauses) != 0 {
		t.Errorf("the pauses are %+v", s.Pauses)
	}
}

// forgetPauses ends all pauses where they are kept, and nowhere else.
func (d *fleet) forgetPauses() {
	d.t.Helper()
	var err error
	if d.databaseURL == "" {
		err = d.client().Del(d.t.Context(), "pacer:pauses").Err()
	} else {
		_, err = postgrestest.Connect(d.t, d.databaseURL).Exec(d.t.Context(), "DELETE FROM pacer.pauses")
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// Operators cancel what waits and send again what has failed; nothing else.
func operatorsCancelAndRetry(t *testing.T, on setup) {
	d, r := newDeployment(t, on, crowdPolicy, 1), newReceiver(t)
	var calls atomic.Int64
	r.respond = func(_ arrival, w http.ResponseWriter) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusGone)
		}
	}
	failed := d.bulk(r.crowd("ada", "default", 1))[0]
	d.awaitStats("one failed", func(s stats) bool { return s.Totals.Failed == 1 })
	waits := d.bulk(r.crowd("ben", "slow", 2))[1]
	d.awaitStats("one waits", func(s stats) bool { return s.Deferred == 1 && s.Totals.Delivered == 1 })

	d.act(d.apps[0], http.StatusConflict, ops.Action{Action: "cancel", ID: failed})
	d.act(d.apps[0], http.StatusConflict, ops.Action{Action: "retry", ID: waits})
	d.act(d.apps[0], http.StatusNotFound, ops.Action{Action: "retry", ID: "nobody"})
	d.act(d.apps[0], http.StatusNotFound, ops.Action{Action: "cancel", ID: "nobody"})
	d.act(d.apps[0], http.StatusConflict, ops.Action{Action: "destroy", ID: waits})
	d.act(d.apps[0], http.StatusConflict, ops.Action{Action: "pause", Kind: "channel", Name: "pigeon"})

	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "cancel", ID: waits})
	var done ops.Done
	retried := d.act(d.apps[0], http.StatusOK, ops.Action{Action: "retry", ID: failed})
	if err := json.Unmarshal([]byte(retried), &done); err != nil {
		t.Fatal(err)
	}
	d.awaitStats("it is delivered", func(s stats) bool { return s.Totals.Delivered == 2 })
	if d.view(waits).Status != "cancelled" || d.view(done.ID).Status != "delivered" ||
		d.view(failed).Status != "failed" {
		t.Errorf("they are %+v, %+v and %+v", d.view(waits), d.view(done.ID), d.view(failed))
	}
}

// The snapshot's figures are those of the deployment.
func snapshotTellsWhoWaits(t *testing.T, on setup) {
	d, r := newDeployment(t, on, crowdPolicy, 2), newReceiver(t)
	d.bulk(r.crowd("ada", "slow", 6))
	d.bulk(r.crowd("ben", "slow", 3))
	d.bulk([]item{{"user_id": "cleo", "channel": "log", "send_at": time.Now().Add(time.Hour).Format(time.RFC3339)}})
	d.awaitStats("two are delivered", func(s stats) bool {
		return s.Totals.Delivered == 2 && s.Deferred == 7 &&
			s.Scheduled == 1
	})
	s := d.awaitSnapshot(d.apps[1], func(s ops.Snapshot) bool {
		return len(s.Processes) == 2 && s.Processes[0].Concurrency+s.Processes[1].Concurrency == 128 && s.Deferred == 7
	})
	if w := s.Waiting; w.Throttle != 7 || w.Scheduled != 1 || w.UserCap+w.Retry+w.Provider != 0 {
		t.Errorf("waiting is %+v", w)
	}
	if len(s.Crowds) != 2 || s.Crowds[0].UserID != "ada" || s.Crowds[0].Deferred != 5 || !s.CrowdsExact {
		t.Errorf("the crowds are %+v", s.Crowds)
	}
	deferred := int64(0)
	for _, partition := range s.Partitions {
		deferred += partition.Deferred
	}
	if deferred != 7 || s.UsersDeferred != 2 || s.Totals.Accepted != 10 || s.Redis.Version == "" ||
		(s.Postgres != nil) != (on == onPostgres) {
		t.Errorf("the snapshot is %+v", s)
	}
}
