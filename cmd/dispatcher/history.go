package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/stats"
)

type historyCommand struct {
	opsClient
	Category string `name:"category" env:"-" placeholder:"NAME" help:"Only this category. Default: all categories, one line per hour."`
	Since    string `name:"since" env:"-" default:"24h" placeholder:"TIME" help:"From this time (RFC 3339), or from this long ago, at most 30d. Default: ${default}."`
	JSON     bool   `name:"json" env:"-" help:"Print JSON, for programs: by hour and category."`
}

// Run shows what happened, by hour.
func (c *historyCommand) Run(ctx context.Context, to streams) error {
	query := url.Values{"since": {c.Since}}
	if c.Category != "" {
		query.Set("category", c.Category)
	}
	status, body, err := c.get(ctx, "/history?"+query.Encode())
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refused("read the history", status, body)
	}
	if c.JSON {
		_, err = to.out.Write(body)
		return err
	}
	var history desk.History
	if err := json.Unmarshal(body, &history); err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if history.Partial {
		_, _ = fmt.Fprintln(to.err, "A partition could not be asked: its counts are missing.") // the table is what counts
	}
	if len(history.Hours) == 0 {
		nothing := "Nothing happened in this time."
		if c.Category != "" {
			nothing = "Nothing happened in the category " + printable(c.Category) + " in this time."
		}
		_, _ = fmt.Fprintln(to.err, nothing) // likewise
	}
	return showHistory(to, history.Hours)
}

// showHistory writes a line for each hour, over all categories, and the sum.
func showHistory(to streams, hours []stats.Hour) error {
	w := tabwriter.NewWriter(to.out, 0, 0, 1, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "hour\taccepted\tdelivered\tdeferred\tfailed\texpired\tcancelled\treplaced\t") // Flush tells
	line := func(name string, h *stats.Hour) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, h.Accepted, h.Delivered, h.Deferred, h.Failed,
			h.Expired, h.Cancelled, h.Replaced) // likewise
	}
	var sum, hour stats.Hour
	add := func(all, h *stats.Hour) {
		all.Hour, all.Accepted, all.Delivered = h.Hour, all.Accepted+h.Accepted, all.Delivered+h.Delivered
		all.Deferred, all.Failed = all.Deferred+h.Deferred, all.Failed+h.Failed
		all.Expired, all.Cancelled = all.Expired+h.Expired, all.Cancelled+h.Cancelled
		all.Replaced += h.Replaced
	}
	for i := range hours {
		add(&sum, &hours[i])
		add(&hour, &hours[i])
		if i == len(hours)-1 || !hours[i+1].Hour.Equal(hour.Hour) {
			line(hour.Hour.Local().Format("2006-01-02 15:04"), &hour)
			hour = stats.Hour{}
		}
	}
	line("sum", &sum)
	return w.Flush()
}
