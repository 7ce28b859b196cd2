//go:build faults

package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/postgrestest"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/testproc"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// program is the built dispatcher, whose protections can be switched off.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pacer-faults")
	if err == nil {
		program = filepath.Join(dir, "dispatcher")
		build := exec.Command("go", "build", "-tags", "faults", "-o", program, "../../cmd/dispatcher")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the dispatcher:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // a temporary folder
	os.Exit(code)
}

// policy lets 2.5 a second of each user go.
const policy = `
version: 1
categories:
  default:
    limits: [{max: 5, per: 2s}, {max: 15, per: 6s}]
    min_gap: 20ms
retry: {max_attempts: 10, min_backoff: 200ms, max_backoff: 2s}
`

var rules = []throttle.Rule{{Max: 5, Per: 2 * time.Second}, {Max: 15, Per: 6 * time.Second}, {Max: 1, Per: 20 * time.Millisecond}}

// perSecond is what the policy lets a user have over long.
const perSecond = 2.5

// delivery is one request that the receiver got.
type delivery struct {
	id, user string
	attempt  int
	admitted throttle.Micros
	arrived  time.Time
}

// receiver is the webhook target. It outlives every process, and keeps a ledger.
type receiver struct {
	server *httptest.Server
	delay  time.Duration

	mu  sync.Mutex
	got []delivery
}

func newReceiver(t *testing.T, delay time.Duration) *receiver {
	t.Helper()
	r := &receiver{delay: delay}
	r.server = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) take(w http.ResponseWriter, request *http.Request) {
	arrived := time.Now()
	var body struct {
		ID     string `json:"id"`
		UserID string `json:"user_id"`
	}
	if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	attempt, _ := strconv.Atoi(request.Header.Get("Pacer-Attempt"))
	admitted, _ := strconv.ParseInt(request.Header.Get("Pacer-Admitted-At"), 10, 64)
	r.mu.Lock()
	r.got = append(r.got, delivery{body.ID, body.UserID, attempt, throttle.Micros(admitted), arrived})
	r.mu.Unlock()
	if r.delay > 0 {
		<-time.After(r.delay)
	}
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// count is how many different notifications arrived.
func (r *receiver) count() int {
	seen := map[string]bool{}
	for _, d := range r.deliveries() {
		seen[d.id] = true
	}
	return len(seen)
}

// deployment is dispatcher processes on servers of the test's own.
type deployment struct {
	t        *testing.T
	redis    *redistest.Server
	redisURL string
	postgres *postgrestest.Server
	receiver *receiver
	policy   string
	env      []string
	workers  []*worker
	ids      []string
}

// worker is one dispatcher process.
type worker struct {
	process  *exec.Cmd
	api, ops string
	log      *os.File
	exited   chan struct{}
}

// options of a deployment. Mutations are protections to be switched off.
type options struct {
	mutations string
	redisArgs []string
	redisURL  string
	delay     time.Duration
}

func deploy(t *testing.T, workers int, o options) *deployment {
	t.Helper()
	d := &deployment{t: t, postgres: postgrestest.Start(t), receiver: newReceiver(t, o.delay), redisURL: o.redisURL}
	if d.redisURL == "" {
		d.redis = redistest.Start(t, o.redisArgs...)
		d.redisURL = d.redis.URL()
	}
	d.postgres.Migrate()
	d.policy = filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(d.policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	d.env = append(os.Environ(), "REDIS_URL="+d.redisURL, "DATABASE_URL="+d.postgres.URL(), "FAULTS_MUTATIONS="+o.mutations)
	for range workers {
		d.workers = append(d.workers, d.start())
	}
	return d
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := testproc.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return testproc.Addr(port)
}

// start runs a process and waits until it is ready.
func (d *deployment) start() *worker {
	d.t.Helper()
	w := &worker{api: freeAddress(d.t), ops: freeAddress(d.t), exited: make(chan struct{})}
	log, err := os.CreateTemp(d.t.TempDir(), "dispatcher-*.log")
	if err != nil {
		d.t.Fatal(err)
	}
	w.log = log
	w.process = exec.Command(program, "serve", "--listen", w.api, "--ops-listen", w.ops, "--policy", d.policy, "--lanes", "8",
		"--webhook-allow", "127.0.0.0/8", "--log-format", "text")
	w.process.Env, w.process.Stdout, w.process.Stderr = d.env, log, log
	w.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.process.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() {
		_ = w.process.Wait() // how a process that tests kill ends says nothing
		close(w.exited)
	}()
	d.t.Cleanup(func() {
		w.signal(syscall.SIGCONT)
		w.kill()
		if d.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			d.t.Logf("%s:\n%s", w.api, text[max(0, len(text)-4000):])
		}
	})
	d.await("a process is ready, or has ended", time.Minute, func() bool { return w.ready() || w.ended() })
	if w.ended() {
		d.t.Fatal("a process ended at its start")
	}
	return w
}

func (w *worker) ended() bool {
	select {
	case <-w.exited:
		return true
	default:
		return false
	}
}

func (w *worker) signal(sig syscall.Signal) { _ = w.process.Process.Signal(sig) } // gone already: nothing to signal

func (w *worker) kill() {
	w.signal(syscall.SIGKILL)
	<-w.exited
}

func (w *worker) ready() bool {
	status, _ := w.call(http.MethodGet, "http://"+w.ops+"/readyz", nil, nil)
	return status == http.StatusOK
}

// call makes a request; the status is 0 when nothing answered.
func (w *worker) call(method, url string, body []byte, v any) (int, time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, 0
	}
	request.Header.Set("Content-Type", "application/json")
	start := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, time.Since(start)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && v != nil {
		err = json.Unmarshal(answer, v)
	}
	if err != nil {
		return 0, time.Since(start)
	}
	return response.StatusCode, time.Since(start)
}

// await waits until something is so.
func (d *deployment) await(what string, patience time.Duration, ok func() bool) {
	d.t.Helper()
	if !eventually(patience, ok) {
		d.t.Fatalf("never came within %s: %s", patience, what)
	}
}

func eventually(patience time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(50 * time.Millisecond)
	}
	return true
}

// load accepts n notifications for each user through a process's API.
func (d *deployment) load(w *worker, prefix string, users, n int) {
	d.t.Helper()
	var items []map[string]any
	for i := range users * n {
		d.ids = append(d.ids, fmt.Sprint(prefix, i))
		items = append(items, map[string]any{"id": fmt.Sprint(prefix, i), "user_id": fmt.Sprint(prefix, "user", i%users), "to": d.receiver.server.URL})
	}
	for part := range slices.Chunk(items, 5000) {
		body, err := json.Marshal(part)
		if err != nil {
			d.t.Fatal(err)
		}
		var answer struct{ Accepted int }
		if status, _ := w.call(http.MethodPost, "http://"+w.api+"/v1/notifications/bulk?results=errors", body, &answer); status != http.StatusOK || answer.Accepted != len(part) {
			d.t.Fatalf("bulk answered %d, accepted %d of %d", status, answer.Accepted, len(part))
		}
	}
}

// open counts what has not ended, in the database.
func (d *deployment) open() int {
	n, err := d.query("SELECT count(*) FROM pacer.notifications WHERE ended_at IS NULL")
	if err != nil {
		return -1
	}
	return n
}

func (d *deployment) query(sql string, args ...any) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.postgres.URL())
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }() // the answer is what counts
	var n int
	return n, conn.QueryRow(ctx, sql, args...).Scan(&n)
}

// verdict is what became of all that was accepted.
type verdict struct {
	accepted, lost, doubled, violations int
}

func (v verdict) String() string {
	return fmt.Sprintf("accepted %d, lost %d, doubled %d, violations %d", v.accepted, v.lost, v.doubled, v.violations)
}

// drain waits until all has ended, or patience runs out, and judges.
func (d *deployment) drain(patience time.Duration) verdict {
	d.t.Helper()
	eventually(patience, func() bool { return d.open() == 0 })
	v := verdict{accepted: len(d.ids)}
	seen, users := map[string]int{}, map[string][]throttle.Micros{}
	for _, delivery := range d.receiver.deliveries() {
		seen[delivery.id]++
		users[delivery.user] = append(users[delivery.user], delivery.admitted)
	}
	for _, id := range d.ids {
		switch n := seen[id]; {
		case n == 0:
			v.lost++
		case n > 1:
			v.doubled += n - 1
		}
	}
	for _, admitted := range users {
		v.violations += violations(admitted)
	}
	return v
}

// violations counts the pairs of admissions of one user that break a rule.
func violations(admitted []throttle.Micros) int {
	slices.Sort(admitted)
	broken := 0
	for _, rule := range rules {
		for i := rule.Max; i < len(admitted); i++ {
			if admitted[i].Sub(admitted[i-rule.Max]) < rule.Per {
				broken++
			}
		}
	}
	return broken
}
