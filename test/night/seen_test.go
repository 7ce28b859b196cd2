package night_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/apitest"
)

// nameWidth is how wide the names of the command line's pages are.
const nameWidth = 12

// field is the text beside a name on a page of the command line, over all its lines.
func field(page, name string) string {
	var text []string
	in := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if len(line) <= nameWidth {
			continue
		}
		if is := strings.TrimSpace(line[:nameWidth]); is != "" {
			in = is == name
		}
		if in {
			text = append(text, strings.TrimSpace(line[nameWidth:]))
		}
	}
	return strings.Join(text, " ")
}

// user is what `dispatcher user` says of a user's standing, or why it can't.
func (d *deployment) user(id string) string {
	d.Helper()
	return cause(d.dispatcher("user", id), id)
}

// explain is what `dispatcher explain` says of a notification's status and why, or why it can't.
func (d *deployment) explain(id string) string {
	d.Helper()
	page := d.dispatcher("explain", id)
	if reply := field(page, "reply"); reply != "" {
		return cause(page, id) + "; " + reply
	}
	return cause(page, id)
}

// cause is what a page says first of whom or what it is about; the whole when it does not begin so.
func cause(page, of string) string {
	first, _, _ := strings.Cut(page, "\n\n")
	if of += ": "; !strings.HasPrefix(first, of) {
		return strings.TrimSpace(page)
	}
	return strings.ReplaceAll(strings.TrimPrefix(first, of), "\n", " ")
}

// dashboard is what the page of the dashboard shows that is not as it should be: its banner, hosts whose latest call
// failed, what ended undelivered, and for whom most is deferred.
func (d *deployment) dashboard() []string {
	d.Helper()
	s := d.snapshot()
	if s == nil {
		return []string{"the page can't be loaded"}
	}
	var shown []string
	for _, p := range s.Problems {
		shown = append(shown, p.Text)
	}
	if s.Stale {
		return shown
	}
	for _, channel := range s.Channels {
		for _, host := range channel.Hosts {
			if host.Outcome != "" && host.Outcome != "delivered" && host.Trouble(s.At) == "" {
				shown = append(shown, strings.TrimSpace(fmt.Sprintf("%s %s: %s; %s", channel.Channel, host.Host,
					host.Health(s.At, func(time.Time) string { return "" }), host.Outcome)))
			}
		}
	}
	var reasons []string
	for _, r := range s.Ended.Reasons {
		reasons = append(reasons, fmt.Sprintf("%s: %s", r.Status, r.Reason))
	}
	if s.Ended.Failed+s.Ended.Expired > 0 {
		shown = append(shown, fmt.Sprintf("Failed %d, expired %d (%s)", s.Ended.Failed, s.Ended.Expired,
			strings.Join(reasons, "; ")))
	}
	for _, c := range s.Crowds {
		shown = append(shown, fmt.Sprintf("Most deferred: %s, %s, %d", c.UserID, c.Category, c.Deferred))
		break
	}
	return shown
}

// snapshot is what a page that is opened now gets first; nil when it gets nothing.
func (d *deployment) snapshot() *ops.Snapshot {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.first().ops+"/events", http.NoBody)
	if err != nil {
		d.Fatal(err)
	}
	response, err := apitest.Once.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	for event := ""; lines.Scan(); {
		if kind, found := strings.CutPrefix(lines.Text(), "event: "); found {
			event = kind
		}
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found || event != "snapshot" {
			continue
		}
		var s ops.Snapshot
		err := json.Unmarshal([]byte(data), &s)
		if lines.Err() != nil { // the line was cut off
			return nil
		}
		if err != nil {
			d.Fatal(err)
		}
		return &s
	}
	return nil
}
