package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/simulate"
	"github.com/pacer-notify/pacer/internal/timespan"
)

//go:embed policysimulated.html
var simulatedPage string

// simulatedTemplate is the page of the rows of a table.
var simulatedTemplate = template.Must(template.New("policysimulated.html").Parse(simulatedPage))

// show prints a report, or writes it as a page.
func (c *policySimulateCommand) show(to io.Writer, r *simulate.Report) error {
	switch {
	case c.JSON:
		return json.NewEncoder(to).Encode(r)
	case c.HTML == "":
		return c.table(r).write(to)
	}
	var page bytes.Buffer
	if err := simulatedTemplate.Execute(&page, c.table(r).rows); err != nil {
		return fmt.Errorf("make the page of the simulation: %w", err)
	}
	if err := os.WriteFile(c.HTML, page.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the page of the simulation: %w", err)
	}
	return nil
}

// table is a report: a line for each category, and one for all.
func (c *policySimulateCommand) table(r *simulate.Report) *table {
	t := &table{}
	t.add("CATEGORY", "POLICY", "ARRIVALS", "DELIVERED", "MESSAGES", "DEFERRED", "WAIT P50", "P95", "P99", "MAX",
		"USERS", "PEAK/S", "ENDED")
	name, against := filepath.Base(c.File), filepath.Base(c.Against)
	if name == against {
		name, against = c.File, c.Against
	}
	for _, category := range append(slices.Sorted(maps.Keys(r.Categories)), "") {
		figures := func(of *simulate.Report) simulate.Figures {
			if category == "" {
				return of.All
			}
			return of.Categories[category]
		}
		t.add(figuresRow(cmp.Or(category, "all"), name, "", figures(r), simulate.Figures{})...)
		if r.Against != nil {
			t.add(figuresRow("", against, "", figures(r.Against), simulate.Figures{})...)
			t.add(figuresRow("", "difference", "+", figures(r), figures(r.Against))...)
		}
	}
	return t
}

// figuresRow is a line of the table: how much greater figures are than others, with a sign for those that are.
func figuresRow(category, policy, sign string, f, than simulate.Figures) []string {
	number := func(n, than int64) string { return fmt.Sprintf("%"+sign+"d", n-than) }
	wait := func(seconds, than float64) string {
		d := time.Duration((seconds - than) * float64(time.Second)).Round(time.Millisecond)
		if d.Abs() >= time.Minute {
			d = d.Round(time.Second)
		}
		if d <= 0 {
			return timespan.Text(d)
		}
		return sign + timespan.Text(d)
	}
	var ended []string
	for _, how := range slices.Sorted(maps.Keys(f.Ended)) {
		ended = append(ended, number(f.Ended[how], than.Ended[how])+" "+how)
	}
	for _, how := range slices.Sorted(maps.Keys(than.Ended)) {
		if f.Ended[how] == 0 {
			ended = append(ended, number(0, than.Ended[how])+" "+how)
		}
	}
	return []string{
		category, policy, number(f.Arrivals, than.Arrivals), number(f.Delivered, than.Delivered),
		number(f.Messages, than.Messages),
		fmt.Sprintf("%"+sign+".1f %%", f.ShareDeferred()-than.ShareDeferred()), wait(f.Wait.P50, than.Wait.P50),
		wait(f.Wait.P95, than.Wait.P95), wait(f.Wait.P99, than.Wait.P99), wait(f.Wait.Max, than.Wait.Max),
		number(int64(f.Users), int64(than.Users)), number(f.Peak, than.Peak), strings.Join(ended, ", "),
	}
}
