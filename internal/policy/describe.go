package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Table is a part of a policy as people read it.
type Table struct {
	Head []string
	Rows [][]string
}

// String writes the table for a terminal.
func (t Table) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(t.Head, "\t")))
	for _, row := range t.Rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // a strings.Builder takes everything
	var lines strings.Builder
	for line := range strings.Lines(text.String()) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return lines.String()
}

// DeliveriesTable says what holds for the deliveries over each channel, and for each category that has settings of its
// own. Channels with the same settings share a row. own are the channels with what each recommends.
func (p *Policy) DeliveriesTable(own map[notification.Channel]notification.DeliverySettings) Table {
	t := Table{Head: []string{
		"Category", "Channels", "Attempts", "Waits between them", "Time-out", "At once", "Ends at",
	}}
	own = maps.Clone(own)
	for name := range p.Channels { // senders with names
		own[name] = own[name.Kind()]
	}
	shown := "(others)"
	if len(p.Deliveries) == 0 {
		shown = "(all)"
	}
	t.Rows = p.describeCategory("", shown, own) // no category has this name
	for _, category := range slices.Sorted(maps.Keys(p.Deliveries)) {
		t.Rows = append(t.Rows, p.describeCategory(category, category, own)...)
	}
	return t
}

// written is what limits a category, as the file writes it.
type written struct{ limits, gap, maxDefer string }

// userCap and capNamed stand for what no category has for a name.
const userCap = "(user_cap)"

func capNamed(name string) string { return "(cap:" + name + ")" }

// writtenOf gathers what the file writes for a category. The algorithm, bypass and the digest stand beside the limits.
func writtenOf(c Category, fields map[string]entry, rules []placed) written {
	w := written{limits: limitsWritten(rules), maxDefer: timespan.Text(c.MaxDefer) + " (default)"}
	if c.Plan.Algorithm != throttle.Rolling {
		w.limits += ", " + c.Plan.Algorithm.String()
	}
	if c.Bypass {
		w.limits += ", bypass"
	}
	if c.Digest != nil {
		w.limits += ", digest" + c.Digest.timing()
	}
	if f, ok := fields["min_gap"]; ok {
		w.gap, _ = scalar(f.value)
	}
	if f, ok := fields["max_defer"]; ok {
		w.maxDefer, _ = scalar(f.value)
	}
	return w
}

// limitsWritten lists limits as the file writes them, all of them.
func limitsWritten(rules []placed) string {
	var texts []string
	for _, r := range rules {
		if r.Kind != throttle.KindGap {
			texts = append(texts, strconv.Itoa(r.Max)+"/"+r.per+reserveOf(r.Rule)+shadowOf(r.shadow))
		}
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}

// LimitsTable says what limits each category, and the caps, as the file writes it.
func (p *Policy) LimitsTable() Table {
	_, d, _ := parse("", []byte(p.Text), nil) // it was parsed before
	names := slices.Sorted(maps.Keys(p.Categories))
	if _, ok := d.written[userCap]; ok {
		names = append(names, userCap)
	}
	for _, c := range p.Caps {
		names = append(names, capNamed(c.Name))
	}
	t := Table{Head: []string{"Category", "Limits", "Min gap", "Max defer"}}
	for _, name := range names {
		w := d.written[name]
		t.Rows = append(t.Rows, []string{name, w.limits, cmp.Or(w.gap, "-"), cmp.Or(w.maxDefer, "-")})
	}
	p.addOverflow(&t)
	return t
}

// describeCategory returns the rows of a category.
func (p *Policy) describeCategory(category, shown string, own map[notification.Channel]notification.DeliverySettings,
) (rows [][]string) {
	channels := map[string][]string{} // by what holds for them
	for _, name := range slices.Sorted(maps.Keys(own)) {
		line := strings.Join(p.describeDelivery(category, name, own[name]), "\t")
		channels[line] = append(channels[line], string(name))
	}
	byFirst := func(a, b string) int { return cmp.Compare(channels[a][0], channels[b][0]) }
	for _, line := range slices.SortedFunc(maps.Keys(channels), byFirst) {
		rows = append(rows, append([]string{shown, strings.Join(channels[line], ", ")}, strings.Split(line, "\t")...))
	}
	return rows
}

// describeDelivery writes the further cells of a row.
func (p *Policy) describeDelivery(category string, name notification.Channel,
	own notification.DeliverySettings,
) []string {
	s := p.Delivery(category, name, own)
	atOnce := "as --concurrency"
	if s.Concurrency > 0 {
		atOnce = strconv.Itoa(s.Concurrency)
	}
	if n := p.Deliveries[category].Concurrency; n > 0 {
		atOnce += fmt.Sprintf(", %d of the category", n)
	}
	final := ""
	if name.Kind() == notification.ChannelWebhook {
		final = describeFinal(p.FinalOf(category, name))
	}
	return []string{
		strconv.Itoa(s.Retry.MaxAttempts), describeWaits(s.Retry), timespan.Text(s.Timeout), atOnce, final,
	}
}

// describeWaits writes the waits between attempts; equal ones in a row once, with their number.
func describeWaits(r notification.Retry) string {
	if len(r.Schedule) == 0 {
		return timespan.Text(r.MinBackoff) + " to " + timespan.Text(r.MaxBackoff)
	}
	var text []string
	steps := r.Schedule[:min(len(r.Schedule), r.MaxAttempts-1)]
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && steps[n] == steps[0] {
			n++
		}
		step := timespan.Text(steps[0])
		if n > 1 {
			step = strconv.Itoa(n) + "×" + step
		}
		text, steps = append(text, step), steps[n:]
	}
	return strings.Join(text, " ")
}

// describeFinal writes responses after which a notification ends.
func describeFinal(final []int) string {
	text := make([]string, len(final))
	for i, status := range final {
		if text[i] = strconv.Itoa(status); status < 10 {
			text[i] += "xx"
		}
	}
	return strings.Join(text, " ")
}
