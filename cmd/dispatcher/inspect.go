package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pacer-notify/pacer/internal/ops"
)

type healthcheckCommand struct{ opsClient }

// Run asks whether the local process can take work.
func (c *healthcheckCommand) Run(ctx context.Context, to streams) error {
	status, body, err := c.get(ctx, "/readyz")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return errors.New(strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", "; "))
	}
	_, err = fmt.Fprintln(to.out, "ready")
	return err
}

type explainCommand struct {
	opsClient
	ID string `arg:"" help:"Id of the notification."`
}

// Run shows a notification's timeline.
func (c *explainCommand) Run(ctx context.Context, to streams) error {
	status, body, err := c.get(ctx, "/explain/"+url.PathEscape(c.ID))
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("explain %s: %s", c.ID, strings.TrimSpace(string(body)))
	}
	var e ops.Explanation
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("read the explanation of %s: %w", c.ID, err)
	}
	w := tabwriter.NewWriter(to.out, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { _, _ = fmt.Fprintf(w, "%s\t%v\n", name, value) } // Flush tells
	line("id", e.ID)
	line("user", e.UserID)
	line("category", e.Category+", "+e.Priority+", by "+e.Channel)
	line("status", e.Status)
	if e.Reason != "" {
		line("because", e.Reason)
	}
	if !e.DeliverAt.IsZero() {
		line("goes out", clock(e.DeliverAt)+" (in "+time.Until(e.DeliverAt).Round(time.Millisecond).String()+")")
	}
	if e.Ahead > 0 {
		line("goes after", fmt.Sprintf("%d of the user's: by priority, then arrival", e.Ahead))
	}
	line("attempts", e.Attempts)
	line("deferrals", e.Deferrals)
	for i, step := range e.Timeline {
		name := ""
		if i == 0 {
			name = "timeline"
		}
		line(name, clock(step.At)+"  "+step.Kind+"  "+step.Detail)
	}
	return w.Flush()
}

type userCommand struct {
	opsClient
	User string `arg:"" help:"Id of the user."`
}

// Run shows a user's windows and what waits.
func (c *userCommand) Run(ctx context.Context, to streams) error {
	status, body, err := c.get(ctx, "/user/"+url.PathEscape(c.User))
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("look at user %s: %s", c.User, strings.TrimSpace(string(body)))
	}
	var categories []ops.UserCategory
	if err := json.Unmarshal(body, &categories); err != nil {
		return fmt.Errorf("read the windows of user %s: %w", c.User, err)
	}
	w := tabwriter.NewWriter(to.out, 0, 0, 2, ' ', 0)
	for _, category := range categories {
		showCategory(w, category)
	}
	return w.Flush()
}

// showCategory writes one category; Flush of the writer tells whether it could be written.
func showCategory(w io.Writer, c ops.UserCategory) {
	standing := "may send now"
	if !c.Allowed {
		standing = "next at " + clock(c.NextAllowedAt) + " because of " + c.Reason
	}
	_, _ = fmt.Fprintf(w, "%s\t%s\t%d waiting, %d deferred\n", c.Category, standing, c.Waiting, c.Deferred)
	for _, rule := range c.Rules {
		frees := ""
		if !rule.FreesAt.IsZero() {
			frees = "frees at " + clock(rule.FreesAt)
		}
		_, _ = fmt.Fprintf(w, "  %s\t%d used, %d left\t%s\n", rule.Rule, rule.Used, rule.Remaining, frees)
	}
	for _, at := range c.Admitted {
		_, _ = fmt.Fprintf(w, "  counted\t%s\t\n", clock(at))
	}
	for _, waiting := range c.Backlog {
		_, _ = fmt.Fprintf(w, "  waits\t%s\tgoes out at %s, %d of the user's before it\n", waiting.ID,
			clock(waiting.DeliverAt), waiting.Ahead)
	}
}

// clock writes a time of today as a time, any other with its date.
func clock(t time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format("15:04:05.000")
	}
	return t.Format("2006-01-02 15:04:05.000")
}
