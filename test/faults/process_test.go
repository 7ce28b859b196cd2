//go:build faults

package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processScenarios are what happens to the processes.
func processScenarios() []*scenario {
	half := 500 * time.Millisecond
	draining := protection{name: "drain", prepare: func(d *deployment) {
		d.env = append(d.env,
			"PACER_DRAIN_TIMEOUT=10ms")
	}}
	return []*scenario{
		{
			name: "WorkerKilled", fault: "SIGKILL of a worker, ten times", users: 400, each: 50,
			slow: 20 * time.Millisecond, doubled: inFlight, without: sweeping,
			recovery: time.Minute, inject: func(d *deployment) { d.killTimes(10) },
		},
		{
			name: "WorkerKilledRedis", soak: true, fault: "SIGKILL of a worker, three times", store: inRedis,
			slow: half, doubled: inFlight, without: sweeping,
			recovery: time.Minute, inject: func(d *deployment) { d.killTimes(3) },
		},
		{
			name: "AllWorkersKilled", soak: true, fault: "SIGKILL of both workers, deliveries in flight", slow: half,
			doubled: inFlight, without: sweeping,
			recovery: time.Minute, inject: killBoth,
		},
		{
			name: "WorkerPaused", fault: "SIGSTOP of a worker for 25 s, longer than its claims hold",
			holds: "no stale writes", slow: 300 * time.Millisecond,
			doubled: inFlight, without: fencing, ready: noteStaleWrites, inject: pauseWorker, check: noStaleWrites,
		},
		{
			name: "WorkersReplaced", soak: true, fault: "rolling restart: SIGTERM, another started, for both",
			slow: half, without: draining, inject: replaceBoth,
		},
		{
			name: "WorkersReplacedRedis", fault: "rolling restart: SIGTERM, another started, for both", store: inRedis,
			slow: half, without: draining, inject: replaceBoth,
		},
		{
			name: "FilesUsedUp", soak: true,
			fault: "workers can't open another file or connection (`RLIMIT_NOFILE`) for 3 s", without: retrying,
			prepare: func(d *deployment) { d.receiver.server.Config.SetKeepAlivesEnabled(false) }, inject: useUpFiles,
		},
		{
			name: "WorkerShortOfMemory", soak: true,
			fault: "a worker gets no more memory (`RLIMIT_AS`), dies under a request and is started again", slow: half,
			doubled: inFlight,
			without: sweeping, recovery: time.Minute, inject: starve,
		},
	}
}

// killTimes kills one worker after the other and starts another in its place.
func (d *deployment) killTimes(n int) {
	for i := range n {
		<-time.After(700 * time.Millisecond)
		victim := d.workers[i%2]
		victim.signal(syscall.SIGSTOP) // so that the count is what it dies with; it holds the other's too
		d.inFlight += d.sending()
		victim.kill()
		d.put(i%2, d.start())
	}
	d.note("%d in flight at the kills", d.inFlight)
}

func killBoth(d *deployment) {
	for _, w := range d.workers {
		w.signal(syscall.SIGSTOP)
	}
	if d.postgres != nil {
		d.inFlight = d.sending()
	}
	for i, w := range d.workers {
		w.kill()
		d.put(i, d.launch())
	}
	d.await("processes are ready", time.Minute, func() bool { return d.workers[0].ready() && d.workers[1].ready() })
}

// noteStaleWrites has the database count every change of a notification that has ended: a result that is written under
// a claim which had gone to another ends a notification that the other ends too.
func noteStaleWrites(d *deployment) {
	d.postgres.Exec(`CREATE TABLE public.stale_writes (id text)`)
	d.postgres.Exec(`CREATE FUNCTION public.note_stale_write() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN INSERT INTO public.stale_writes VALUES (OLD.id); RETURN NEW; END'`)
	d.postgres.Exec(`CREATE TRIGGER stale_write BEFORE UPDATE ON pacer.notifications FOR EACH ROW
		WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION public.note_stale_write()`)
}

func noStaleWrites(d *deployment, _ verdict) {
	<-time.After(8 * time.Second) // the worker that was paused tries to write what it holds
	stale, err := d.query("SELECT count(*) FROM public.stale_writes")
	if err != nil {
		d.fail("%v", err)
	}
	if stale > 0 {
		d.blame("%d stale writes", stale)
	}
}

func pauseWorker(d *deployment) {
	paused := d.workers[0]
	paused.signal(syscall.SIGSTOP)
	d.inFlight = d.sending()
	next := d.start()
	d.mu.Lock()
	d.workers = []*worker{d.workers[1], next, paused}
	d.mu.Unlock()
	d.last(25 * time.Second)
	paused.signal(syscall.SIGCONT)
}

func replaceBoth(d *deployment) {
	for i := range 2 {
		next := d.start()
		d.workers[i].terminate()
		d.put(i, next)
	}
}

// useUpFiles lets the workers have no more files than they have open.
func useUpFiles(d *deployment) {
	for _, w := range d.workers {
		pid := w.process.Process.Pid
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			d.fail("count the files of a worker: %v", err)
		}
		d.limit(pid, "nofile", uint64(len(open)))
	}
	d.last(3 * time.Second)
	for _, w := range d.workers {
		d.lift(w.process.Process.Pid, "nofile")
	}
}

// starve lets a worker have no more memory than it has, and makes it need some.
func starve(d *deployment) {
	victim := d.workers[0]
	pid := victim.process.Process.Pid
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		d.fail("read the size of a worker: %v", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	pages, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		d.fail("read the size of a worker: %v", err)
	}
	d.inFlight = d.sending() + 64
	d.limit(pid, "as", pages*uint64(os.Getpagesize()))
	big := []byte(`[{"user_id":"big","to":"` + d.target + `","body":"` + strings.Repeat("x", 15<<20) + `"}]`)
	d.await("the worker dies", 30*time.Second, func() bool {
		go func() { _, _ = call("POST", "http://"+victim.api+"/v1/notifications/bulk", big, nil) }()
		return victim.ended()
	})
	d.note("the worker's end: %s", victim.process.ProcessState) // with or without a word: even that takes memory
	d.put(0, d.start())
}
