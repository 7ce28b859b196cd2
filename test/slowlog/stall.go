package slowlog

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Meter tells for how long processes were kept from running: what they waited for a processor (the run delay of
// /proc/PID/schedstat), what the machine's host took of its processors (steal), and what anybody waited for disks
// and memory (/proc/pressure). It needs Linux. Its zero value is ready; it is not safe for concurrent use.
type Meter struct {
	waited           map[int]time.Duration
	stolen, pressure time.Duration
	begun            bool
}

// Since returns both since the last call, and 0 at the first: what processors and what disks and memory cost. A
// process that came meanwhile counts from its start.
func (m *Meter) Since(pids []int) (stalled, pressure time.Duration, err error) {
	waited := make(map[int]time.Duration, len(pids))
	for _, pid := range pids {
		now, err := runDelay(pid)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return 0, 0, err
		}
		waited[pid] = now
		stalled += now - m.waited[pid]
	}
	stolen, err := timeStolen()
	if err != nil {
		return 0, 0, err
	}
	waits, err := pressureWaits()
	if err != nil {
		return 0, 0, err
	}
	stalled, pressure = stalled+stolen-m.stolen, waits-m.pressure
	first := !m.begun
	m.waited, m.stolen, m.pressure, m.begun = waited, stolen, waits, true
	if first {
		return 0, 0, nil
	}
	return stalled, pressure, nil
}

// runDelay is for how long a process's first thread, the only one that works in a Redis or a Postgres, was ready to run
// and did not.
func runDelay(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, err
	}
	var ran, waited, times int64
	if _, err := fmt.Sscan(string(text), &ran, &waited, &times); err != nil {
		return 0, fmt.Errorf("read the run delay of process %d from %q: %w", pid, text, err)
	}
	return time.Duration(waited), nil
}

// procUnit is the unit of /proc/stat.
const procUnit = 10 * time.Millisecond

// timeStolen grows by what the machine's host took of its processors.
func timeStolen() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 {
		return 0, fmt.Errorf("read the stolen time from %q", first)
	}
	steal, err := strconv.ParseInt(fields[8], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the stolen time from %q: %w", first, err)
	}
	return time.Duration(steal) * procUnit, nil
}

var total = regexp.MustCompile(`(?m)^some .*total=(\d+)$`)

// pressureWaits grows while anything waits for disks or memory.
func pressureWaits() (waits time.Duration, err error) {
	for _, resource := range []string{"io", "memory"} {
		text, err := os.ReadFile("/proc/pressure/" + resource)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.EOPNOTSUPP) {
			continue // a kernel that does not tell: there is no allowance for it
		}
		if err != nil {
			return 0, err
		}
		found := total.FindSubmatch(text)
		if found == nil {
			return 0, fmt.Errorf("read the pressure on %s from %q", resource, text)
		}
		µs, err := strconv.ParseInt(string(found[1]), 10, 64)
		if err != nil {
			return 0, err
		}
		waits += time.Duration(µs) * time.Microsecond
	}
	return waits, nil
}
