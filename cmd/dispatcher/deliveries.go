package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/settings"
)

// writeDeliveries writes what holds under a policy for the deliveries over each channel, and for each category that has
// settings of its own. Channels with the same settings share a line.
func writeDeliveries(to io.Writer, p *policy.Policy) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nCATEGORY\tCHANNELS\tATTEMPTS\tWAITS BETWEEN THEM\tTIME-OUT\tAT ONCE\tENDS AT")
	const others = "" // no category has this name
	for _, category := range append([]string{others}, slices.Sorted(maps.Keys(p.Deliveries))...) {
		lines := map[string][]string{} // channels by what holds for them
		for name, own := range channelsOf(p) {
			line := describeDelivery(p, category, name, own)
			lines[line] = append(lines[line], string(name))
		}
		sorted := slices.SortedFunc(maps.Keys(lines), func(a, b string) int {
			slices.Sort(lines[a])
			slices.Sort(lines[b])
			return cmp.Compare(lines[a][0], lines[b][0])
		})
		shown := category
		if category == others {
			shown = "(others)"
			if len(p.Deliveries) == 0 {
				shown = "(all)"
			}
		}
		for _, line := range sorted {
			fmt.Fprintf(table, "%s\t%s\t%s\n", shown, strings.Join(lines[line], ", "), line)
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(to, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// channelsOf are the kinds of channels, and the senders that a policy names, with their own settings of deliveries.
func channelsOf(p *policy.Policy) map[notification.Channel]notification.DeliverySettings {
	all := map[notification.Channel]notification.DeliverySettings{}
	for _, of := range (settings.Channels{}).All() {
		all[of.Name] = of.Delivery
	}
	for name := range p.Channels {
		all[name] = all[name.Kind()]
	}
	return all
}

// describeDelivery writes the cells of a line.
func describeDelivery(p *policy.Policy, category string, name notification.Channel,
	own notification.DeliverySettings,
) string {
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
	return strings.Join([]string{
		strconv.Itoa(s.Retry.MaxAttempts), describeWaits(s.Retry), shortDuration(s.Timeout), atOnce, final,
	}, "\t")
}

// describeWaits writes the waits between attempts; equal ones in a row once, with their number.
func describeWaits(r notification.Retry) string {
	if len(r.Schedule) == 0 {
		return shortDuration(r.MinBackoff) + " to " + shortDuration(r.MaxBackoff)
	}
	var text []string
	steps := r.Schedule[:min(len(r.Schedule), r.MaxAttempts-1)]
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && steps[n] == steps[0] {
			n++
		}
		step := shortDuration(steps[0])
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

// shortDuration writes a duration without zero units.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
