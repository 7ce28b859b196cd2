//go:build accept

package e2e_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// dispatcherPath and enqueuePath are the built programs.
var dispatcherPath, enqueuePath string

func TestMain(m *testing.M) {
	programs := processtest.Build(m, "dispatcher", "enqueue")
	dispatcherPath, enqueuePath = programs.Path("dispatcher"), programs.Path("enqueue")
	os.Exit(programs.Run())
}

// delivery is one request that the receiver got.
type delivery struct {
	ID, User, Category string
	AdmittedAt         throttle.Micros
	Arrived            time.Time
}

// receiver is the webhook target; it outlives every worker.
type receiver struct {
	server  *httptest.Server
	delay   time.Duration
	respond func(http.ResponseWriter) // nil: with 200

	mu  sync.Mutex
	got []delivery
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		arrived := time.Now()
		var body struct {
			ID       string `json:"id"`
			UserID   string `json:"user_id"`
			Category string `json:"category"`
		}
		if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		at, _ := strconv.ParseInt(request.Header.Get("Pacer-Admitted-At"), 10, 64)
		r.mu.Lock()
		r.got = append(r.got, delivery{body.ID, body.UserID, body.Category, throttle.Micros(at), arrived})
		r.mu.Unlock()
		if r.delay > 0 {
			<-time.After(r.delay)
		}
		if r.respond != nil {
			r.respond(w)
		}
	}))
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// deployment is worker processes on one Redis, or one process with a Redis inside, of which nobody sees anything.
type deployment struct {
	t     *testing.T
	redis *redistest.Server
	url   string
	// database is empty where Redis is the store.
	database string
	policy   string
	env      []string // of the workers, beside what all have
	workers  []*worker
}

// worker is one dispatcher process.
type worker struct {
	process *exec.Cmd
	api     string
	ops     string
	log     bytes.Buffer
	exited  chan error
}

func deploy(t *testing.T, policy string, workers int) *deployment {
	t.Helper()
	server := redistest.Start(t)
	d := &deployment{t: t, redis: server, url: server.URL(), policy: policyFile(t, policy)}
	for range workers {
		d.workers = append(d.workers, d.start())
	}
	d.watchLeftovers()
	return d
}

// deployEmbedded starts the one process that keeps everything in itself.
func deployEmbedded(t *testing.T, policy string) *deployment {
	t.Helper()
	d := &deployment{t: t, policy: policyFile(t, policy)}
	d.workers = append(d.workers, d.start())
	return d
}

func policyFile(t *testing.T, policy string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (d *deployment) start() *worker {
	d.t.Helper()
	w := &worker{api: freePort(d.t), ops: freePort(d.t), exited: make(chan error, 1)}
	w.process = exec.Command(dispatcherPath, "serve")
	w.process.Env = append(os.Environ(), "REDIS_URL="+d.url, "DATABASE_URL="+d.database, "PACER_LISTEN="+w.api,
		"PACER_OPS_LISTEN="+w.ops,
		"PACER_POLICY="+d.policy, "PACER_WEBHOOK_ALLOW=127.0.0.0/8")
	w.process.Env = append(w.process.Env, d.env...)
	w.process.Stdout, w.process.Stderr = &w.log, &w.log
	w.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.process.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() { w.exited <- w.process.Wait() }()
	d.t.Cleanup(func() { _ = w.process.Process.Kill() })
	deadline := time.Now().Add(20 * time.Second)
	for {
		response, err := apitest.Once.Get("http://" + w.ops + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return w
			}
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("the dispatcher is never ready:\n%s", w.log.String())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// item is one notification.
type item struct {
	UserID    string    `json:"user_id"`
	Category  string    `json:"category,omitempty"`
	Channel   string    `json:"channel,omitempty"`
	Priority  string    `json:"priority,omitempty"`
	To        string    `json:"to"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// accept hands items over in batches and gives their ids.
func (d *deployment) accept(w *worker, items []item) []string {
	d.t.Helper()
	var ids []string
	for batch := range slices.Chunk(items, 5000) {
		body, err := json.Marshal(batch)
		if err != nil {
			d.t.Fatal(err)
		}
		response, err := apitest.Client.Post("http://"+w.api+"/v1/notifications/bulk", "application/json",
			bytes.NewReader(body))
		if err != nil {
			d.t.Fatal(err)
		}
		var reply struct {
			Accepted int
			Results  []struct{ ID, Error string }
		}
		err = json.NewDecoder(response.Body).Decode(&reply)
		response.Body.Close()
		if err != nil || reply.Accepted != len(batch) {
			d.t.Fatalf("accepted %d of %d: %v", reply.Accepted, len(batch), err)
		}
		for _, result := range reply.Results {
			ids = append(ids, result.ID)
		}
	}
	return ids
}

// stats are the deployment's counts.
type stats struct {
	Queued, Scheduled, Deferred, Retrying, Sending int64
	Totals                                         struct {
		Accepted, Delivered, Failed, Expired, Cancelled, Replaced, Pulls, Deferrals, Attempts int64
	}
}

func (s stats) ended() int64 {
	return s.Totals.Delivered + s.Totals.Failed + s.Totals.Expired + s.Totals.Cancelled + s.Totals.Replaced
}

func (d *deployment) stats(w *worker) stats {
	d.t.Helper()
	response, err := apitest.Client.Get("http://" + w.api + "/v1/stats")
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	var s stats
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// drain waits until everything accepted has ended.
func (d *deployment) drain(w *worker, within time.Duration) stats {
	d.t.Helper()
	deadline := time.Now().Add(within)
	for {
		s := d.stats(w)
		if s.ended() == s.Totals.Accepted {
			return s
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("not everything ended within %s: %+v\n%s", within, s, w.log.String())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// violations counts the pairs of admissions, per user and category, that break a rule; each notification counts once
// for each time it was delivered.
func violations(got []delivery, rules ...throttle.Rule) int {
	byKey := map[string][]throttle.Micros{}
	for _, g := range got {
		byKey[g.User+"/"+g.Category] = append(byKey[g.User+"/"+g.Category], g.AdmittedAt)
	}
	broken := 0
	for _, at := range byKey {
		slices.Sort(at)
		for _, rule := range rules {
			for i := rule.Max; i < len(at); i++ {
				if at[i].Sub(at[i-rule.Max]) < rule.Per {
					broken++
				}
			}
		}
	}
	return broken
}

// compare counts deliveries beyond the first of each notification, and lost what was never delivered.
func compare(ids []string, got []delivery) (lost, duplicates int) {
	times := map[string]int{}
	for _, g := range got {
		times[g.ID]++
	}
	for _, id := range ids {
		switch n := times[id]; n {
		case 0:
			lost++
		default:
			duplicates += n - 1
		}
	}
	return lost, duplicates
}
