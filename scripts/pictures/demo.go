package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// demoLength is how much of the demo's commentary is shown: one round of its script.
	demoLength = 15500 * time.Millisecond
	// demoPatience is how long the demo may take to print it.
	demoPatience = time.Minute
)

// event is one line of the demo's commentary.
type event struct {
	at   time.Duration
	kind string // accept, arrive or stats
	user string
	text string // all that stands after the kind
}

// spoken is a line of the commentary: the seconds since the start, a kind, and words.
var spoken = regexp.MustCompile(`^ *(\d+\.\d{3})  (accept|arrive|stats )  (.*)$`)

// parseEvent reads a line; false when it is none of the commentary's.
func parseEvent(line string) (event, bool) {
	found := spoken.FindStringSubmatch(line)
	if found == nil {
		return event{}, false
	}
	seconds, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return event{}, false
	}
	e := event{at: time.Duration(seconds * float64(time.Second)), kind: strings.TrimSpace(found[2]), text: found[3]}
	if e.kind != "stats" {
		e.user, _, _ = strings.Cut(e.text, " ")
	}
	return e, true
}

// demoCommand is the demo with its pages at an address. The end of ctx tells it to stop.
func demoCommand(ctx context.Context, program, ops string) *exec.Cmd {
	demo := exec.CommandContext(ctx, program, //nolint:gosec // it was built here
		"demo", "--listen", "127.0.0.1:0", "--ops-listen", ops, "--log-level", "error")
	demo.Cancel = func() error { return demo.Process.Signal(syscall.SIGTERM) }
	demo.Stderr = os.Stderr
	return demo
}

// drawDemo runs the demo and draws what it prints.
func drawDemo(ctx context.Context, program string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	demo := demoCommand(ctx, program, "127.0.0.1:0")
	out, err := demo.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("read what the demo prints: %w", err)
	}
	if err := demo.Start(); err != nil {
		return nil, fmt.Errorf("start the demo: %w", err)
	}
	events := readEvents(out)
	cancel()
	_ = demo.Wait() // it was told to stop
	if len(events) == 0 {
		return nil, fmt.Errorf("the demo printed nothing within %s", demoPatience)
	}
	return []byte(animation(events)), nil
}

// readEvents reads the commentary up to demoLength.
func readEvents(out io.Reader) []event {
	var events []event
	for lines := bufio.NewScanner(out); lines.Scan(); {
		e, ok := parseEvent(lines.Text())
		if !ok || strings.Contains(e.text, " news ") { // the nights come at another time in each run
			continue
		}
		if e.at > demoLength {
			break
		}
		events = append(events, e)
	}
	return events
}
