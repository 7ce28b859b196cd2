package docs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/settings"
)

const channelsPage = "docs/channels.md"

// TestDeliveriesOfEachChannel compares the table of retries and time-outs with the channels. A row that says "as"
// another must mean the same.
func TestDeliveriesOfEachChannel(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readFile(t, channelsPage), "| channel | retry schedule | time-out | concurrency |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		for name := range strings.SplitSeq(cells[0], ", ") {
			rows[strings.Trim(name, "`")] = cells
		}
	}
	said := map[string]notification.DeliverySettings{}
	for _, c := range (settings.Channels{}).All() {
		said[string(c.Name)] = c.Delivery.Over(notification.DefaultDelivery())
	}
	for name, s := range said {
		cells := rows[name]
		if len(cells) != 4 {
			t.Errorf("%s has no row for %s", channelsPage, name)
			continue
		}
		if other, ok := strings.CutPrefix(cells[1], "as `"); ok {
			other, _, _ = strings.Cut(other, "`")
			if fmt.Sprint(s) != fmt.Sprint(said[other]) {
				t.Errorf("%s is %v, and %s, which is as it, %v", name, s, other, said[other])
			}
			continue
		}
		wants := []string{fmt.Sprintf("%d attempts", s.Retry.MaxAttempts)}
		if len(s.Retry.Schedule) > 0 {
			wants = append(wants, "within "+days(s.Retry))
		}
		for _, want := range wants {
			if !strings.Contains(cells[1], want) {
				t.Errorf("%s says %q of %s, want %q in it", channelsPage, cells[1], name, want)
			}
		}
		if want := fmt.Sprintf("%.0f s", s.Timeout.Seconds()); cells[2] != want {
			t.Errorf("%s says that %s times out after %s, want %s", channelsPage, name, cells[2], want)
		}
	}
}

// days writes how long all steps of a schedule take, in days and hours.
func days(r notification.Retry) string {
	all := time.Duration(0)
	for _, step := range r.Schedule {
		all += step
	}
	return fmt.Sprintf("%d d %d h", all/(24*time.Hour), all%(24*time.Hour)/time.Hour)
}
