package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/pacer-notify/pacer/internal/ops"
)

// snapshot asks for the deployment's figures.
func (c *opsClient) snapshot(ctx context.Context) (*ops.Snapshot, []byte, error) {
	status, body, err := c.get(ctx, "/snapshot")
	if err != nil {
		return nil, nil, err
	}
	if status != http.StatusOK {
		return nil, nil, fmt.Errorf("read the figures: %s", strings.TrimSpace(string(body)))
	}
	var s ops.Snapshot
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, nil, fmt.Errorf("read the figures: %w", err)
	}
	return &s, body, nil
}

type statsCommand struct {
	opsClient
	JSON bool `name:"json" env:"-" help:"As JSON, for programs."`
}

// Run shows the deployment's figures once.
func (c *statsCommand) Run(ctx context.Context, to streams) error {
	s, body, err := c.snapshot(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = to.out.Write(body)
		return err
	}
	return showSnapshot(to.out, s)
}

type topCommand struct {
	opsClient
	Interval time.Duration `name:"interval" env:"-" default:"1s" placeholder:"DURATION" help:"How often. Default: ${default}."`
}

// clearScreen goes to the top left corner and empties the screen from there.
const clearScreen = "\x1b[H\x1b[2J"

// Run shows the dashboard's figures in the terminal until it is interrupted.
func (c *topCommand) Run(ctx context.Context, to streams) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	file, isFile := to.out.(*os.File)
	screen := isFile && term.IsTerminal(int(file.Fd()))
	ticker := time.NewTicker(max(c.Interval, 100*time.Millisecond))
	defer ticker.Stop()
	for {
		s, _, err := c.snapshot(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end that is wanted
		}
		var frame bytes.Buffer
		if screen {
			frame.WriteString(clearScreen)
		}
		if err != nil {
			if !screen {
				return err
			}
			fmt.Fprintln(&frame, err)
		} else if err := showSnapshot(&frame, s); err != nil {
			return err
		}
		if _, err := to.out.Write(frame.Bytes()); err != nil {
			return fmt.Errorf("show the figures: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// showSnapshot writes the dashboard as text.
func showSnapshot(to io.Writer, s *ops.Snapshot) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) } // Flush tells
	oldest := ""
	if s.Deferred > 0 {
		oldest = ", oldest " + seconds(s.OldestDeferredSeconds)
	}
	line("deferred\t%d\tof %d users%s", s.Deferred, s.UsersDeferred, oldest)
	line("waiting\t\tthrottle %d, user cap %d, retry %d, provider %d, scheduled %d", s.Waiting.Throttle,
		s.Waiting.UserCap, s.Waiting.Retry,
		s.Waiting.Provider, s.Waiting.Scheduled)
	line("queued\t%d\t%d under way", s.Queued, s.Sending)
	line("per second\t\taccepted %.1f, delivered %.1f, deferred %.1f, failed %.1f", s.Rates.Accepted, s.Rates.Delivered,
		s.Rates.Deferrals, s.Rates.Failed)
	line("in all\t\taccepted %d, delivered %d, failed %d, expired %d, cancelled %d, replaced %d", s.Totals.Accepted,
		s.Totals.Delivered,
		s.Totals.Failed, s.Totals.Expired, s.Totals.Cancelled, s.Totals.Replaced)
	line("lateness\t\tp50 %s, p99 %s", seconds(s.Lateness.P50), seconds(s.Lateness.P99))
	line("pulls\t%.2f\tper delivery", s.PullsPerDelivery)
	if found := s.Invariants; !found.At.IsZero() {
		line("invariants\t\t%d violations, %d unended, %s", found.Violations, found.Unended, clock(found.At))
	}
	for _, p := range s.Pauses {
		line("paused\t\t%s by %s, %s %s", p.Subject, p.By, clock(p.At), p.Why)
	}
	showProcesses(line, s)
	return w.Flush()
}

func showProcesses(line func(format string, args ...any), s *ops.Snapshot) {
	for _, p := range s.Processes {
		line("process\t%d\tof %d under way, up %s, %s, %s", p.InFlight, p.Concurrency,
			s.At.Sub(p.Since).Round(time.Second), strings.Join(p.Roles, ","), p.ID)
	}
	for _, c := range s.Channels {
		for _, h := range c.Hosts {
			health := "responds"
			switch {
			case h.PausedFor != "":
				health = "paused for " + h.PausedFor
			case h.Breaker != "closed":
				health = "away (breaker " + h.Breaker + ")"
			}
			line("channel\t%d\tunder way, %s %s: %s", h.InFlight, c.Channel, h.Host, health)
		}
	}
	for _, c := range s.Crowds {
		line("waits\t%d\t%s, user %s", c.Deferred, c.Category, c.UserID)
	}
}

// seconds writes a duration for people.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
