package night_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/providertest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// policy is the one of all cases that have none of their own.
const policy = `version: 1
categories:
  default: {}
  chat: {limits: [{max: 1, per: 1h}]}
  alarm: {limits: [{max: 1, per: 1h}], max_defer: 10m}
  security: {bypass: true}
retry: {max_attempts: 50, min_backoff: 2s, max_backoff: 10m}
`

// deployment is what a case plays in.
type deployment struct {
	*testing.T
	redisURL, databaseURL string
	program, policy       string
	env                   []string
	receiver              *providertest.HTTP
	processes             []*process
	// calm are the metrics before the trouble.
	calm series
}

// process is one dispatcher.
type process struct {
	name, api, ops string
	command        *exec.Cmd
	ended          chan struct{}
}

// startReceiver starts a webhook target, which takes everything.
func startReceiver(t *testing.T) *providertest.HTTP {
	t.Helper()
	return providertest.StartHTTP(t, providertest.HTTPConfig{Plain: true})
}

// with responds to everything with a status and a text.
func with(status int, text string) providertest.Rule {
	return providertest.Rule{Reply: providertest.Reply{Status: status, Body: text}}
}

// deploy starts what a case needs.
func deploy(t *testing.T, n *night) *deployment {
	t.Helper()
	d := &deployment{T: t, program: dispatcherPath, receiver: startReceiver(t)}
	text := n.policy
	if text == "" {
		text = policy
	}
	d.policy = d.file("policy.yaml", text)
	if n.prepare != nil {
		n.prepare(d)
	}
	if d.redisURL == "" {
		d.redisURL = redistest.URL(t)
	}
	if n.postgres && d.databaseURL == "" {
		d.databaseURL = postgrestest.URL(t)
	}
	for _, roles := range n.roles() {
		d.start(roles)
	}
	workers := strings.Count(strings.Join(n.roles(), " "), "worker")
	d.await("all workers are listed", func() bool {
		d.calm = d.scrape()
		return d.calm[`pacer_workers{instance="process-0"}`] == float64(workers)
	})
	// What the page counts, it counts from its first figures on. Where a store then goes away, they are old.
	d.await("the page has figures", func() bool {
		s := d.snapshot()
		return s != nil && !s.Stale
	})
	return d
}

// file writes a file of the case's own.
func (d *deployment) file(name, text string) string {
	d.Helper()
	path := filepath.Join(d.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
	return path
}

// start starts a process, and waits until it is ready. More are further variables of its environment.
func (d *deployment) start(roles string, more ...string) *process {
	d.Helper()
	p := &process{name: fmt.Sprint("process-", len(d.processes)), api: d.address(), ops: d.address(), ended: make(chan struct{})}
	p.command = exec.CommandContext(context.Background(), d.program, "serve")
	p.command.Env = append(append(append(os.Environ(), "REDIS_URL="+d.redisURL, "DATABASE_URL="+d.databaseURL,
		"PACER_ROLES="+roles, "PACER_LISTEN="+p.api, "PACER_OPS_LISTEN="+p.ops, "PACER_POLICY="+d.policy,
		"PACER_PARTITIONS=2", "PACER_WEBHOOK_ALLOW=127.0.0.0/8", "PACER_DRAIN_TIMEOUT=1s"), d.env...), more...)
	var log bytes.Buffer
	p.command.Stdout, p.command.Stderr = &log, &log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		d.Fatal(err)
	}
	go func() { defer close(p.ended); _ = p.command.Wait() }() // it is killed in the end
	d.Cleanup(func() {
		p.kill()
		if d.Failed() {
			d.Logf("%s logged:\n%s", p.name, &log)
		}
	})
	d.await("a process is ready", func() bool {
		select {
		case <-p.ended:
			d.Fatalf("the dispatcher has ended:\n%s", &log)
		default:
		}
		status, _ := d.request(http.MethodGet, "http://"+p.ops+"/readyz", "")
		return status == http.StatusOK
	})
	d.processes = append(d.processes, p)
	return p
}

// address is a free one.
func (d *deployment) address() string {
	d.Helper()
	port, err := processtest.FreePort()
	if err != nil {
		d.Fatal(err)
	}
	return processtest.Addr(port)
}

// kill ends a process as nobody who is asked would.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.ended
}

// signal sends a process a signal.
func (d *deployment) signal(p *process, s syscall.Signal) {
	d.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		d.Fatal(err)
	}
}

// first is the process that is asked.
func (d *deployment) first() *process { return d.processes[0] }

// await waits until something is so.
func (d *deployment) await(what string, ok func() bool) {
	d.Helper()
	for deadline := time.Now().Add(*patience); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatalf("never came within %s: %s", *patience, what)
		}
	}
}

// request makes a request. The status is 0 when nobody responds.
func (d *deployment) request(method, url, body string) (status int, reply string) {
	d.Helper()
	return d.requestBy(apitest.Once, 10*time.Second, method, url, body)
}

// insist makes a request to the API, again while it is refused for now.
func (d *deployment) insist(method, path, body string) (status int, reply string) {
	d.Helper()
	return d.requestBy(apitest.Client, *patience, method, "http://"+d.first().api+path, body)
}

func (d *deployment) requestBy(client *http.Client, within time.Duration, method, url, body string,
) (status int, reply string) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// call makes a request to the API, which must accept it.
func (d *deployment) call(method, path, body string) {
	d.Helper()
	if status, reply := d.insist(method, path, body); status/100 != 2 {
		d.Fatalf("%s %s: %d %s", method, path, status, reply)
	}
}

// post has ada get a notification with an id; more are further fields, in JSON, each with a comma before it. Without a
// target among them it goes to the receiver.
func (d *deployment) post(id, more string) { d.Helper(); d.postFor("ada", id, more) }

func (d *deployment) postFor(user, id, more string) {
	d.Helper()
	if !strings.Contains(more, `"to"`) {
		more += fmt.Sprintf(`,"to":%q`, d.receiver.URL)
	}
	d.call(http.MethodPost, "/v1/notifications", fmt.Sprintf(`{"id":%q,"user_id":%q,"body":"hello"%s}`, id, user, more))
}

// delivered has ada get a notification, and waits until she has it.
func (d *deployment) delivered(id, more string) {
	d.Helper()
	d.post(id, more)
	d.is(id, "delivered")
}

// behind has n1 wait behind a notification that was delivered.
func (d *deployment) behind(more string) {
	d.Helper()
	d.delivered("n0", more)
	d.post("n1", more)
}

// postBrief has ada get a notification that soon expires. On a slow machine it may have expired when it arrives, and be
// refused: then it lives twice as long.
func (d *deployment) postBrief(id, category string) {
	d.Helper()
	for life := 2 * time.Second; ; life *= 2 {
		status, reply := d.insist(http.MethodPost, "/v1/notifications", fmt.Sprintf(
			`{"id":%q,"user_id":"ada","category":%q,"body":"hello","to":%q,"expires_at":%q}`, id, category, d.receiver.URL,
			time.Now().Add(life).UTC().Format(time.RFC3339Nano)))
		// It may have been accepted when it was first refused for now, and repeated too late.
		if known, _ := d.insist(http.MethodGet, "/v1/notifications/"+id, ""); known == http.StatusOK {
			return
		}
		if status != http.StatusUnprocessableEntity || !strings.Contains(reply, "expires_at") {
			d.Fatalf("post %s: %d %s", id, status, reply)
		}
	}
}

// is waits until a notification has a status.
func (d *deployment) is(id, status string) {
	d.Helper()
	d.await(id+" is "+status, func() bool {
		_, reply := d.request(http.MethodGet, "http://"+d.first().api+"/v1/notifications/"+id, "")
		return strings.Contains(reply, `"status":"`+status+`"`)
	})
}

// dispatcher runs a command as an operator does, and gives what it prints.
func (d *deployment) dispatcher(args ...string) string {
	d.Helper()
	command := exec.CommandContext(d.Context(), dispatcherPath, args...)
	command.Env = []string{
		"TZ=UTC", "PACER_OPS_LISTEN=" + d.first().ops, "HOME=" + d.TempDir(), "PATH=" + os.Getenv("PATH"),
	}
	out, _ := command.CombinedOutput() // what it says, it also says when it fails
	return string(out)
}

// operate runs a command until it says that something is done: it does not while a store is slow.
func (d *deployment) operate(done string, args ...string) {
	d.Helper()
	d.await(done, func() bool { return strings.Contains(d.dispatcher(args...), done) })
}
