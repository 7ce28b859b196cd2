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
	"time"

	"golang.org/x/term"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// snapshot asks for the deployment's figures.
func (c *opsClient) snapshot(ctx context.Context) (*ops.Snapshot, []byte, error) {
	status, body, err := c.get(ctx, "/snapshot")
	if err != nil {
		return nil, nil, err
	}
	if status != http.StatusOK {
		return nil, nil, refused("read the figures", status, body)
	}
	var s ops.Snapshot
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, nil, fmt.Errorf("read the figures: %w", err)
	}
	return &s, body, nil
}

type statsCommand struct {
	opsClient
	JSON bool `name:"json" env:"-" help:"Print JSON, for programs."`
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
	Interval time.Duration `name:"interval" env:"-" default:"1s" placeholder:"DURATION" help:"How often to refresh. Default: ${default}."`
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

// narrowest is how wide a terminal may be at least for every line to fit.
const narrowest = 60

// showSnapshot writes the dashboard as text, in lines of at most narrowest columns.
func showSnapshot(to io.Writer, s *ops.Snapshot) error {
	var text strings.Builder
	line := func(name, format string, args ...any) {
		value := []rune(fmt.Sprintf(format, args...))
		const room = narrowest - len("per second  ")
		for len(value) > room {
			cut := room
			for i := room; i > room/2; i-- {
				if value[i] == ' ' {
					cut = i
					break
				}
			}
			fmt.Fprintf(&text, "%-12s%s\n", name, string(value[:cut]))
			name, value = "", []rune(strings.TrimLeft(string(value[cut:]), " "))
		}
		fmt.Fprintf(&text, "%-12s%s\n", name, string(value))
	}
	for _, problem := range s.Problems {
		line("!", "%s", problem.Text)
	}
	showCounts(line, s)
	showEnded(line, s)
	if found := s.Invariants; !found.At.IsZero() {
		line("invariants", "%s, %d unended, %s", plural.Of(found.Violations, "violation", "violations"), found.Unended,
			clock(found.At))
	}
	for _, p := range s.Pauses {
		line("paused", "%s %s %s", p.Kind, p.Name, strings.TrimPrefix(pausedBy(&p), "paused "))
	}
	if r := s.Retime; r != nil {
		line("policy", "%d of %s rescheduled under %s", r.Done, plural.Of(r.Users, "user", "users"), r.Version)
	}
	showProcesses(line, s)
	_, err := io.WriteString(to, text.String())
	return err
}

// lines writes one line of a name and a value.
type lines func(name, format string, args ...any)

func showCounts(line lines, s *ops.Snapshot) {
	oldest := ""
	if s.OldestDeferredSeconds > 0 {
		oldest = ", oldest " + seconds(s.OldestDeferredSeconds)
	}
	line("deferred", "%d of %s%s", s.Deferred, plural.Of(s.UsersDeferred, "user", "users"), oldest)
	if left, deferred := s.Drained(); deferred {
		bound := "in about"
		if !s.CrowdsExact {
			bound = "in at least"
		}
		line("drained", "%s %s", bound, timespan.Seconds(time.Duration(left*float64(time.Second))))
	}
	line("waiting", "throttle %d, user cap %d, quiet hours %d, retry %d, provider %d, scheduled %d", s.Waiting.Throttle,
		s.Waiting.UserCap, s.Waiting.QuietHours, s.Waiting.Retry, s.Waiting.Provider, s.Waiting.Scheduled)
	showHeld(line, &s.Forecast)
	line("queued", "%d, %d under way", s.Queued, s.Sending)
	line("per second", "accepted %.1f, delivered %.1f, deferred %.1f, failed %.1f", s.Rates.Accepted, s.Rates.Delivered,
		s.Rates.Deferrals, s.Rates.Failed)
	line("in all", "accepted %d, delivered %d, failed %d, expired %d, cancelled %d, replaced %d", s.Totals.Accepted,
		s.Totals.Delivered, s.Totals.Failed, s.Totals.Expired, s.Totals.Cancelled, s.Totals.Replaced)
	line("lateness", "p50 %s, p99 %s", seconds(s.Lateness.P50), seconds(s.Lateness.P99))
	line("pulls", "%.2f per delivery", s.PullsPerDelivery)
}

// showHeld writes what is held, for which reason and until when.
func showHeld(line lines, f *stats.Forecast) {
	about := ""
	if !f.Exact {
		about = "about "
	}
	second := func(t time.Time) string { return strings.TrimSuffix(clock(t.Truncate(time.Second)), ".000") }
	for _, held := range f.Reasons {
		if held.First.IsZero() {
			line("held", "%s%d by %s: for an unknown time", about, held.Count, held.Reason)
			continue
		}
		line("held", "%s%d by %s: the first until %s, the last until %s", about, held.Count, held.Reason,
			second(held.First), second(held.Last))
	}
}

// showEnded writes what ended undelivered of late, and why.
func showEnded(line lines, s *ops.Snapshot) {
	if s.Ended.Since.IsZero() {
		return
	}
	line("since "+s.Ended.Since.Local().Format("15:04"), "failed %d, expired %d", s.Ended.Failed, s.Ended.Expired)
	for _, r := range s.Ended.Reasons {
		line("", "%d %s: %s", r.Count, r.Status, r.Reason)
	}
}

func showProcesses(line lines, s *ops.Snapshot) {
	for _, p := range s.Processes {
		policy := ""
		if p.Policy != nil {
			policy = ", policy " + p.Policy.Version
		}
		line("process", "%s: %d of %d under way, up %s, %s%s", p.ID, p.InFlight, p.Concurrency,
			timespan.Seconds(s.At.Sub(p.Since)), strings.Join(p.Roles, ","), policy)
	}
	for _, c := range s.Channels {
		for _, h := range c.Hosts {
			name := c.Channel
			if h.Host != "" {
				name += " " + h.Host
			}
			line("channel", "%s: %s, %d under way", name, h.Health(s.At, clock), h.InFlight)
		}
	}
	for _, c := range s.Crowds {
		until := ""
		if !c.Until.IsZero() {
			until = fmt.Sprintf(": %s until %s", c.Reason, clock(c.Until))
		}
		line("waits", "%d of user %s, %s%s", c.Deferred, c.UserID, c.Category, until)
	}
}

// seconds writes a duration for people.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return timespan.Text(d.Round(100 * time.Millisecond))
}
