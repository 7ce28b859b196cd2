//go:build faults

package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Sizes of the load: FAULTS=short makes it a tenth.
func users() int {
	if os.Getenv("FAULTS") == "short" {
		return 40
	}
	return 400
}

const each = 50

// patience bounds a drain: four times what the limits need, and a minute.
var patience = time.Duration(4*each/perSecond)*time.Second + time.Minute

// lease is how long a claim holds.
const lease = 15 * time.Second

func TestRedisIsEmptied(t *testing.T) {
	for name, fault := range map[string]func(*deployment){
		"FlushAll":       func(d *deployment) { d.redis.FlushAll() },
		"KilledAndEmpty": func(d *deployment) { d.redis.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			d := deploy(t, 2, options{})
			d.load(d.workers[0], "n", users(), each)
			d.await("the run is under way", time.Minute, func() bool { return d.receiver.count() > 3*users() })
			start := time.Now()
			fault(d)
			open := d.open()
			d.await("all that is due is back in line", 30*time.Second, func() bool { return d.inLine() })
			back := time.Since(start)
			v := d.drain(patience)
			t.Logf("%s; %d due rows back after %.1f s", v, open, back.Seconds())
			if v.lost+v.doubled+v.violations > 0 {
				t.Error("want 0, 0, 0")
			}
		})
	}
}

// inLine tells whether the counts in Redis hold all that the database has open.
func (d *deployment) inLine() bool {
	var s struct{ Queued, Scheduled, Deferred, Retrying, Sending int }
	w := d.workers[0]
	if status, _ := w.call(http.MethodGet, "http://"+w.api+"/v1/stats", nil, &s); status != http.StatusOK {
		return false
	}
	return s.Queued+s.Scheduled+s.Deferred+s.Retrying+s.Sending >= d.open()*99/100
}

func TestWithoutRebuildRedisLosesAll(t *testing.T) {
	d := deploy(t, 2, options{})
	d.load(d.workers[0], "n", 10, 20)
	for _, w := range d.workers { // what follows is a deployment without the protection
		w.kill()
	}
	d.env = append(d.env, "FAULTS_MUTATIONS=no-rebuild,no-sweeper")
	d.workers = []*worker{d.start()}
	d.redis.FlushAll()
	if v := d.drain(15 * time.Second); v.lost == 0 {
		t.Errorf("%s: with the rebuild switched off something must be lost", v)
	}
}

func TestWorkerKilledTwentyTimes(t *testing.T) {
	d := deploy(t, 2, options{delay: 20 * time.Millisecond})
	d.load(d.workers[0], "n", users(), each)
	inFlight, slowest := 0, time.Duration(0)
	for i := range 20 {
		<-time.After(700 * time.Millisecond)
		victim := d.workers[i%2]
		victim.signal(syscall.SIGSTOP) // so that the count is what it dies with; it holds the other's too
		sending, err := d.query("SELECT count(*) FROM pacer.notifications WHERE status = 'sending'")
		if err != nil {
			t.Fatal(err)
		}
		inFlight += sending
		victim.kill()
		d.workers[i%2] = d.start()
	}
	v := d.drain(patience)
	first := map[string]time.Time{}
	for _, x := range d.receiver.deliveries() {
		if at, seen := first[x.id]; seen {
			slowest = max(slowest, x.arrived.Sub(at))
		} else {
			first[x.id] = x.arrived
		}
	}
	t.Logf("%s; %d in flight at the kills; slowest redelivery after %.1f s", v, inFlight, slowest.Seconds())
	if v.lost+v.violations > 0 || v.doubled > inFlight {
		t.Error("want 0 lost, 0 violations")
	}
}

func TestRedeliveryComesWithTheLease(t *testing.T) {
	d := deploy(t, 2, options{delay: 2 * time.Second})
	d.load(d.workers[0], "n", 20, 1)
	d.await("all are in flight", 20*time.Second, func() bool { return d.receiver.count() == 20 })
	d.workers[0].kill()
	d.workers[1].kill()
	killed := time.Now()
	d.workers = []*worker{d.start()}
	d.await("a redelivery", 2*lease, func() bool { return len(d.receiver.deliveries()) > 20 })
	took := time.Since(killed)
	v := d.drain(patience)
	t.Logf("%s; first redelivery after %.1f s", v, took.Seconds())
	if v.lost+v.violations > 0 || took > lease+4*time.Second || v.doubled > 20 {
		t.Errorf("want 0 lost, redelivery within %s", lease+4*time.Second)
	}
}

// pausedWorker stops a process in the middle of its deliveries for longer than its claims hold, and lets it go on.
func pausedWorker(t *testing.T, o options, pause, drain time.Duration) (verdict, int) {
	d := deploy(t, 1, o)
	// A result that is written under a claim which had gone to another ends a notification that the other ends too.
	d.postgres.Exec(`CREATE TABLE public.stale_writes (id text)`)
	d.postgres.Exec(`CREATE FUNCTION public.note_stale_write() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN INSERT INTO public.stale_writes VALUES (OLD.id); RETURN NEW; END'`)
	d.postgres.Exec(`CREATE TRIGGER stale_write BEFORE UPDATE ON pacer.notifications FOR EACH ROW
		WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION public.note_stale_write()`)
	d.load(d.workers[0], "n", 40, 5)
	d.await("deliveries are in flight", 20*time.Second, func() bool { return d.receiver.count() > 20 })
	paused := d.workers[0]
	paused.signal(syscall.SIGSTOP)
	d.workers = append(d.workers, d.start())
	<-time.After(pause)
	paused.signal(syscall.SIGCONT)
	<-time.After(8 * time.Second) // it tries to write what it holds; all else has ended long since
	v := d.drain(drain)
	stale, err := d.query("SELECT count(*) FROM public.stale_writes")
	if err != nil {
		t.Fatal(err)
	}
	return v, stale
}

func TestPausedWorkerWritesNothing(t *testing.T) {
	v, stale := pausedWorker(t, options{delay: 300 * time.Millisecond}, time.Minute, patience)
	t.Logf("%s; stale writes %d", v, stale)
	if v.lost+v.violations+stale > 0 {
		t.Error("want 0 lost, 0 violations, 0 stale writes")
	}
}

func TestWithoutTheFenceAPausedWorkerWrites(t *testing.T) {
	if v, stale := pausedWorker(t, options{delay: 300 * time.Millisecond, mutations: "no-fence"}, 25*time.Second, 5*time.Second); stale == 0 {
		t.Errorf("%s: with the fence switched off a stale result must be written", v)
	}
}

func TestRedisFrozenAtTheAcknowledgement(t *testing.T) {
	for _, frozen := range []time.Duration{4 * time.Second, 16 * time.Second} {
		t.Run(frozen.String(), func(t *testing.T) {
			d := deploy(t, 2, options{delay: 500 * time.Millisecond})
			d.load(d.workers[0], "n", 100, 5)
			d.await("deliveries are in flight", 20*time.Second, func() bool { return d.receiver.count() > 50 })
			d.redis.Freeze()
			<-time.After(frozen)
			d.redis.Thaw()
			v := d.drain(patience)
			t.Log(v)
			if v.lost+v.doubled+v.violations > 0 {
				t.Error("want 0, 0, 0")
			}
		})
	}
}

func TestPostgresRestarts(t *testing.T) {
	d := deploy(t, 2, options{})
	d.load(d.workers[0], "n", users()/4, each)
	d.await("the run is under way", time.Minute, func() bool { return d.receiver.count() > users() })
	d.postgres.Restart()
	v := d.drain(patience)
	t.Log(v)
	if v.lost+v.violations > 0 || v.doubled > 0 {
		t.Error("want 0, 0, 0")
	}
}

func TestPostgresFrozen(t *testing.T) {
	d := deploy(t, 2, options{})
	d.load(d.workers[0], "n", users()/4, each)
	d.await("the run is under way", time.Minute, func() bool { return d.receiver.count() > users() })
	inFlight, err := d.query("SELECT count(*) FROM pacer.notifications WHERE status = 'sending'") // a moment before
	if err != nil {
		t.Fatal(err)
	}
	d.postgres.Freeze()
	thaw := time.After(30 * time.Second)
	slowest, refused, taken := time.Duration(0), 0, 0
	for i := range 8 {
		id := fmt.Sprint("frozen", i)
		body := fmt.Sprintf(`{"id":"%s","user_id":"frozen%d","to":"%s"}`, id, i, d.receiver.server.URL)
		status, took := d.workers[0].call(http.MethodPost, "http://"+d.workers[0].api+"/v1/notifications", []byte(body), nil)
		slowest = max(slowest, took)
		switch status {
		case http.StatusServiceUnavailable:
			refused++
		case http.StatusAccepted:
			taken++
			d.ids = append(d.ids, id)
		}
	}
	<-thaw
	d.postgres.Thaw()
	v := d.drain(patience)
	t.Logf("%s; while frozen: %d refused with 503, slowest after %.2f s, %d accepted; about %d were in flight", v, refused, slowest.Seconds(), taken, inFlight)
	// What was delivered in that moment and could not be written down before its lease ended is delivered again.
	if v.lost+v.violations > 0 || v.doubled > inFlight+16 || refused != 8 || slowest > 3*time.Second {
		t.Error("want 0 lost and violated, none doubled but of those in flight, and 503 within 3 s")
	}
}

func TestEnqueueLost(t *testing.T) {
	d := deploy(t, 2, options{mutations: "lose-enqueue"})
	d.await("the lanes are built", 20*time.Second, func() bool { return d.inLine() })
	start := time.Now()
	d.load(d.workers[0], "n", 200, 2)
	v := d.drain(20 * time.Second)
	took := time.Since(start)
	t.Logf("%s; all after %.1f s", v, took.Seconds())
	if v.lost+v.doubled+v.violations > 0 || took > 10*time.Second {
		t.Error("want 0, 0, 0 within 10 s")
	}
	text, err := os.ReadFile(d.workers[0].log.Name())
	other, err2 := os.ReadFile(d.workers[1].log.Name())
	if err != nil || err2 != nil || !strings.Contains(string(text)+string(other), "did not reach Redis") {
		t.Error("nothing was lost on the way: the scenario shows nothing")
	}
}

func TestWithoutTheSweeperALostEnqueueStaysLost(t *testing.T) {
	d := deploy(t, 2, options{mutations: "lose-enqueue,no-sweeper"})
	d.await("the lanes are built", 20*time.Second, func() bool { return d.inLine() })
	d.load(d.workers[0], "n", 200, 2)
	if v := d.drain(12 * time.Second); v.lost == 0 {
		t.Errorf("%s: with the sweeper switched off something must be lost", v)
	}
}
