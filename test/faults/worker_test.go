//go:build faults

package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// worker is one dispatcher process.
type worker struct {
	process  *exec.Cmd
	api, ops string
	// front is where producers reach the API: its address, or that of a proxy before it.
	front string
	// clock is the file that reports how wrong its clock is, where that can be set.
	clock  string
	log    *os.File
	exited chan struct{}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := processtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return processtest.Addr(port)
}

// launch runs a process of the deployment and does not wait for it.
func (d *deployment) launch() *worker {
	d.t.Helper()
	w := &worker{api: freeAddress(d.t), ops: freeAddress(d.t), exited: make(chan struct{})}
	w.front = w.api
	log, err := os.CreateTemp(d.t.TempDir(), "dispatcher-*.log")
	if err != nil {
		d.t.Fatal(err)
	}
	w.log = log
	w.process = exec.Command(d.program, "serve", "--listen", w.api, "--ops-listen", w.ops, "--policy", d.policy,
		"--partitions", "8",
		"--webhook-allow", "127.0.0.0/8", "--log-format", "text")
	w.process.Env, w.process.Stdout, w.process.Stderr = d.env, log, log
	if d.skewable {
		w.clock = filepath.Join(d.clocks, w.api)
		if err := os.WriteFile(w.clock, make([]byte, 8), 0o600); err != nil {
			d.t.Fatal(err)
		}
		w.process.Env = append(slices.Clone(d.env), "FAULTS_CLOCK="+w.clock)
	}
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
		_ = log.Close()
	})
	return w
}

// start runs a process and waits until it is ready.
func (d *deployment) start() *worker {
	d.t.Helper()
	w := d.launch()
	d.await("a process is ready, or has ended", time.Minute, func() bool { return w.ready() || w.ended() })
	if w.ended() {
		d.fail("a process ended at its start: %s", w.says())
	}
	return w
}

// says is the end of what the process wrote into its log.
func (w *worker) says() string {
	text, _ := os.ReadFile(w.log.Name())
	return string(text[max(0, len(text)-500):])
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
	status, _ := call(http.MethodGet, "http://"+w.ops+"/readyz", nil, nil)
	return status == http.StatusOK
}

// caller makes the requests of producers and tests. A connection that a fault broke is not used again.
var caller = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ask is call for a process that may be stopped: it does not wait for long.
func ask(url string, v any) bool {
	client := &http.Client{Timeout: 2 * time.Second, Transport: caller.Transport}
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK && json.NewDecoder(response.Body).Decode(v) == nil
}

// call makes a request; the status is 0 when nothing responded.
func call(method, url string, body []byte, v any) (int, time.Duration) {
	request, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader(body))
	if err != nil {
		return 0, 0
	}
	request.Header.Set("Content-Type", "application/json")
	start := time.Now()
	response, err := caller.Do(request)
	if err != nil {
		return 0, time.Since(start)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err == nil && v != nil && response.StatusCode < 300 {
		err = json.Unmarshal(reply, v)
	}
	if err != nil {
		return 0, time.Since(start)
	}
	return response.StatusCode, time.Since(start)
}
