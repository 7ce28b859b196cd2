package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// jiffy is the unit in which the kernel counts the time of a process's children that have ended.
const jiffy = 10 * time.Millisecond

// familyCPU is how long the parent of a process, and all its children, have been on a core.
func familyCPU(child int) (time.Duration, error) {
	stat, err := fields(child)
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of Postgres: %w", err)
	}
	parent := stat[1]
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var total time.Duration
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		stat, err := fields(pid)
		if err != nil {
			continue // it has just ended, and its parent has its time
		}
		if strconv.Itoa(pid) == parent {
			total += jiffies(stat[13]) + jiffies(stat[14])
		} else if stat[1] != parent {
			continue
		}
		total += onCore(pid, stat)
	}
	return total, nil
}

// fields are those of /proc/PID/stat behind the name: state, parent and so on.
func fields(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	behind := text[bytes.LastIndexByte(text, ')')+1:]
	found := strings.Fields(string(behind))
	if len(found) < 15 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(found))
	}
	return found, nil
}

// onCore is how long a process of one thread has been on a core, to the nanosecond where the kernel tells.
func onCore(pid int, stat []string) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		if nanos, err := strconv.ParseInt(first, 10, 64); err == nil {
			return time.Duration(nanos)
		}
	}
	return jiffies(stat[11]) + jiffies(stat[12])
}

func jiffies(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64) // what the kernel says is a number
	return time.Duration(n) * jiffy
}
