package ops

import (
	"fmt"
	"strings"

	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Endpoint is a registered webhook endpoint that fails or is disabled.
type Endpoint struct {
	ID string `json:"id"`
	// Host is that of its URL, which may hold a secret.
	Host string `json:"host"`
	// State is failing or disabled, Words say since when and why.
	State string `json:"state"`
	Words string `json:"words"`
}

// endpointsShown is how many the snapshot has at most, wordsShown how many bytes of the words of each.
const (
	endpointsShown = 100
	wordsShown     = 200
)

// troubled lists the endpoints that fail or are disabled.
func troubled(directory *endpoints.Directory) (all []Endpoint) {
	if directory == nil {
		return nil
	}
	for _, e := range directory.Troubled() {
		if len(all) == endpointsShown {
			break
		}
		all = append(all, Endpoint{
			ID: e.ID, Host: notification.HostOf(e.URL), State: e.State(),
			Words: strings.ToValidUTF8(e.Words()[:min(len(e.Words()), wordsShown)], ""),
		})
	}
	return all
}

// endpointProblems are those of webhook endpoints: they are their receivers' own, and page nobody.
func endpointProblems(s *Snapshot, add adder) {
	var names []string
	for _, e := range s.Endpoints {
		names = append(names, fmt.Sprintf("%s (%s) %s", e.ID, e.Host, e.Words))
	}
	if len(names) > 0 {
		add(Remedy{}, "Webhook endpoint %s.", listed(names))
	}
}

// receiverProblems are receivers of events that take none. Each is named once, whichever processes tell of it.
func receiverProblems(s *Snapshot, add adder) {
	told := map[string]bool{}
	for _, p := range s.Processes {
		for _, r := range p.Receivers {
			since := timespan.Seconds(s.At.Sub(r.Since))
			switch {
			case told[r.Host]:
			case r.Disabled:
				add(toProcesses, "The receiver of events at %s is disabled: it accepted none for %s (%s). Restart a worker to send to it again.", r.Host, since, r.Fault)
			default:
				add(toProcesses, "The receiver of events at %s has accepted none for %s (%s).", r.Host, since, r.Fault)
			}
			told[r.Host] = true
		}
	}
}
