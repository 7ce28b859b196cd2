//go:build faults

package faults_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/test/redistest"
)

// A worker's clock is set wrong inside its program: it is built with a package time whose Now adds what a file says.
// Nothing outside can do that, since Go asks the kernel for the time without a library in between. Redis asks through
// one.

// forgetsAhead is a limiter that does not count what was admitted after what the clock says now.
var forgetsAhead = []rewrite{{
	file:    "internal/throttle/lua/decide.lua",
	says:    "if from > at then at, why = from, r end",
	instead: "if from > at and from <= now + rule.per then at, why = from, r end",
}}

// deafToTheClock is a sweeper that does not notice that the clock was set back.
var deafToTheClock = []rewrite{{
	file: "internal/agenda/lua/truce.lua",
	says: "if last > now + 10000000 then", instead: "if last > now + 1e15 then",
}}

// clockScenarios are clocks that are wrong.
func clockScenarios() []*scenario {
	redisClock := protection{name: "time of Redis", mutations: "client-clock"}
	return []*scenario{
		{
			name: "WorkerClocksApart", byArrival: true, tolerance: 400 * time.Millisecond,
			fault: "the workers' clocks are 5 min ahead and 5 min behind", store: inRedis, without: redisClock,
			prepare: skewable,
			ready:   func(d *deployment) { d.setClocks(5*time.Minute, -5*time.Minute) },
			inject:  func(d *deployment) { d.last(5 * time.Second) }, goesOn: true,
		},
		{
			name: "WorkerClocksApartPostgres", byArrival: true, tolerance: 400 * time.Millisecond,
			fault: "the workers' clocks are 5 min ahead and 5 min behind", without: redisClock, prepare: skewable,
			ready:  func(d *deployment) { d.setClocks(5*time.Minute, -5*time.Minute) },
			inject: func(d *deployment) { d.last(5 * time.Second) }, goesOn: true,
		},
		{
			name: "WorkerClockStepped", byArrival: true, tolerance: 400 * time.Millisecond,
			fault: "a worker's clock is set 1 h ahead, back, 1 h behind, back, a second each", store: inRedis,
			without: redisClock, prepare: skewable,
			inject: func(d *deployment) {
				for _, offset := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
					d.setClocks(offset)
					d.last(time.Second)
				}
			},
		},
		{
			name: "RedisClockBack", fault: "Redis's clock is set back by 5 s", prepare: fakeClock, byArrival: true,
			tolerance: 400 * time.Millisecond,
			without:   protection{name: "admissions ahead of the clock count", rewrites: forgetsAhead},
			inject:    func(d *deployment) { d.setRedisClock(-5 * time.Second) },
		},
		{
			name: "RedisClockHourBack", fault: "Redis's clock is set back by 1 h", store: inRedis, prepare: fakeClock,
			byArrival: true, tolerance: 400 * time.Millisecond,
			without: protection{name: "the sweeper wakes users", rewrites: deafToTheClock},
			inject:  func(d *deployment) { d.last(2 * time.Second); d.setRedisClock(-time.Hour) },
		},
		{
			name:  "RedisClockAhead",
			fault: "Redis's clock is set 1 h ahead, and 2 s later another, with deliveries in flight",
			slow:  5 * time.Second,
			prepare: func(d *deployment) {
				fakeClock(d)
				d.env = append(d.env, "PACER_CONCURRENCY=2048") // the provider has room for what would be sent again
				// A host that takes more than a quarter of the time-out gets few places, and 8,000 would take minutes.
				patient := policy + "channels: {webhook: {timeout: 1m}}\n"
				if err := os.WriteFile(d.policy, []byte(patient), 0o600); err != nil {
					d.fail("write the policy: %v", err)
				}
			},
			without: protection{name: "fence", rewrites: unfenced},
			inject: func(d *deployment) {
				// A single jump looks like a gap between sweeps, after which leases are left alone for long enough.
				d.setRedisClock(time.Hour)
				d.last(2 * time.Second)
				d.setRedisClock(2 * time.Hour)
			},
		},
	}
}

// skewed builds the dispatcher whose clock can be set wrong; once, since the whole standard library is built again.
var skewed = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	built := filepath.Join(programs, "dispatcher-skewed")
	return built, overlaid(built,
		rewrite{file: original, says: "\nfunc Now() Time {\n", instead: wrongNow + "\nfunc rightNow() Time {\n"},
		rewrite{file: original, says: "\t_ \"unsafe\"", instead: "\t\"syscall\"\n\t\"unsafe\""})
})

// wrongNow is added to package time: Now is off by the seconds in the file FAULTS_CLOCK, which is read each time. The
// monotonic clock stays right, as it does when a clock is set.
const wrongNow = `
var faultsClock = openFaultsClock()

func openFaultsClock() int {
	path, set := syscall.Getenv("FAULTS_CLOCK")
	if !set {
		return -1
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("open FAULTS_CLOCK: " + err.Error())
	}
	return fd
}

// Now returns the current local time, as a clock tells it that somebody has set wrong. Timers call it where no
// goroutine runs, so the file is read without the scheduler's knowledge.
func Now() Time {
	t := rightNow()
	if faultsClock < 0 {
		return t
	}
	var seconds int64
	n, _, _ := syscall.RawSyscall6(syscall.SYS_PREAD64,
		uintptr(faultsClock), uintptr(unsafe.Pointer(&seconds)), 8, 0, 0, 0)
	if n != 8 {
		return t
	}
	if t.wall&hasMonotonic != 0 {
		t.wall += uint64(seconds) << nsecShift
		return t
	}
	t.ext += seconds
	return t
}
`

// skewable has the workers' clocks told by files.
func skewable(d *deployment) {
	built, err := skewed()
	if err != nil {
		d.fail("build a dispatcher whose clock can be set wrong: %v", err)
	}
	d.program, d.skewable = built, true
	d.clocks = d.t.TempDir()
}

// setClocks sets the clocks of the workers, in their order.
func (d *deployment) setClocks(offsets ...time.Duration) {
	for i, offset := range offsets {
		d.setClock(d.workers[i].clock, offset)
	}
}

func (d *deployment) setClock(file string, offset time.Duration) {
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(int64(offset/time.Second)))
	if err := os.WriteFile(file, seconds, 0o600); err != nil {
		d.fail("set a clock: %v", err)
	}
}

// clockLibrary builds the library through which a C program asks for the time.
var clockLibrary = sync.OnceValues(func() (string, error) {
	library := filepath.Join(programs, "clock.so")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-o", library, "testdata/clock.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gcc, which race tests need too: %w\n%s", err, out)
	}
	return library, nil
})

// fakeClock starts a Redis whose clock can be set.
func fakeClock(d *deployment) {
	library, err := clockLibrary()
	if err != nil {
		d.fail("build a clock for Redis: %v", err)
	}
	d.clocks = filepath.Join(d.t.TempDir(), "clock")
	d.setClock(d.clocks, 0)
	d.redis = redistest.StartUnder(d.t, []string{"env", "LD_PRELOAD=" + library, "FAULTS_CLOCK=" + d.clocks})
	d.redisURL = d.redis.URL()
}

func (d *deployment) setRedisClock(offset time.Duration) { d.setClock(d.clocks, offset) }
