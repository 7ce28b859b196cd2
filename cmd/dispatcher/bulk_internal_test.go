package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
)

// slowJobs is a dispatcher with one job, which responds to so many looks at it with a status and then says that it is
// done.
func slowJobs(t *testing.T, status int, looks int64) (url string) {
	t.Helper()
	var failed atomic.Int64
	reply := func(w http.ResponseWriter, what any) {
		if err := json.NewEncoder(w).Encode(what); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /bulk", func(w http.ResponseWriter, r *http.Request) {
		var order desk.BulkOrder
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			t.Error(err)
		}
		if order.Confirm == "" {
			reply(w, desk.BulkCount{Count: 5, Filter: order.Filter, Confirm: "5"})
			return
		}
		reply(w, desk.BulkJob{ID: "job-1", Action: order.Action, Status: control.JobRunning, Count: 5})
	})
	mux.HandleFunc("GET /bulk/job-1", func(w http.ResponseWriter, _ *http.Request) {
		if failed.Add(1) <= looks {
			http.Error(w, "the store takes too long to respond", status)
			return
		}
		reply(w, desk.BulkJob{ID: "job-1", Action: desk.ActionCancel, Status: control.JobDone, Count: 5, Done: 5})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// A store that is slow for a moment does not end the command that follows a job. A refusal does.
func TestAJobIsFollowedOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		status   int
		code     int
		out, err string
	}{
		{name: "a moment", status: http.StatusServiceUnavailable, out: "done: 5 of 5 cancelled\n"},
		{
			name: "refused", status: http.StatusUnauthorized, code: 1,
			err: "could not read how far job-1 has got; dispatcher jobs shows it: not done: the store takes too long to respond\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, "cancel", "--category=news", "--yes", "--ops-listen", slowJobs(t, c.status, 3))
			if got.code != c.code || got.out != c.out || !strings.HasSuffix(got.err, c.err) {
				t.Errorf("%+v, want %+v", got, c)
			}
		})
	}
}
