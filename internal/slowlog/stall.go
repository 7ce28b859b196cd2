package slowlog

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Meter tells for how long processes were kept from running: what they waited for a processor (the run delay of
// /proc/PID/schedstat), what the machine's host took of its processors (steal), and what anybody waited for disks
// and memory (/proc/pressure). It needs Linux. Its zero value is ready; it is not safe for concurrent use.
type Meter struct {
	waited  map[int]time.Duration
	machine time.Duration
	begun   bool
}

// Since gives the time since the last question, and 0 at the first. A process that came meanwhile counts from its start.
func (m *Meter) Since(pids []int) (time.Duration, error) {
	stalled := time.Duration(0)
	waited := make(map[int]time.Duration, len(pids))
	for _, pid := range pids {
		now, err := runDelay(pid)
		if os.IsNotExist(err) || strings.Contains(fmt.Sprint(err), "no such process") {
			continue // it has ended
		}
		if err != nil {
			return 0, err
		}
		waited[pid] = now
		stalled += now - m.waited[pid]
	}
	machine, err := machineStalled()
	if err != nil {
		return 0, err
	}
	stalled += machine - m.machine
	first := !m.begun
	m.waited, m.machine, m.begun = waited, machine, true
	if first {
		return 0, nil
	}
	return stalled, nil
}

// runDelay is for how long a process's first thread, the only one that works in a Redis or a Postgres, was ready to run
// and did not.
func runDelay(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, err
	}
	var ran, waited, slices int64
	if _, err := fmt.Sscan(string(text), &ran, &waited, &slices); err != nil {
		return 0, fmt.Errorf("read the run delay of process %d from %q: %w", pid, text, err)
	}
	return time.Duration(waited), nil
}

// tick is the unit of /proc/stat.
const tick = 10 * time.Millisecond

var total = regexp.MustCompile(`(?m)^some .*total=(\d+)$`)

// machineStalled grows by what the whole machine lost.
func machineStalled() (time.Duration, error) {
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
	stalled := time.Duration(steal) * tick
	for _, resource := range []string{"io", "memory"} {
		text, err := os.ReadFile("/proc/pressure/" + resource)
		if os.IsNotExist(err) {
			continue // a kernel without PSI, whose disks and memory get no allowance
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
		stalled += time.Duration(µs) * time.Microsecond
	}
	return stalled, nil
}
