//go:build accept

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

const (
	// movedUsers is how many users change their preferences in each case, waitingEach how many wait for each.
	movedUsers, waitingEach = 20, 6
	// moveWithin is how soon after a change of preferences what waits has moved.
	moveWithin = 2 * time.Second
)

// moves are changes of the preferences of users for whom something waits. At home, in UTC, it is night; away it is day.
var moves = map[string]struct {
	before, after string
	// lets reports whether the users' notifications go after the change; they do before it, or the other way round.
	lets bool
	// until is when they go again, so long after the change; 0: never.
	until time.Duration
}{
	"away from the night":        {before: `{}`, after: `{"time_zone": "Asia/Kathmandu"}`, lets: true},
	"back into the night":        {before: `{"time_zone": "Asia/Kathmandu"}`, after: `{}`},
	"own quiet hours end":        {before: `{}`, after: `{"quiet_hours": {"off": true}}`, lets: true},
	"own quiet hours are lifted": {before: away(`"quiet_hours": {"window": "never"}`), after: away(""), lets: true},
	"own quiet hours begin":      {before: away(""), after: away(`"quiet_hours": {"window": "never"}`)},
	"quiet until tomorrow ends":  {before: away(`"quiet_until": "TOMORROW"`), after: away(""), lets: true},
	"quiet for a while":          {before: away(""), after: away(`"quiet_until": "SOON"`), until: 8 * time.Second},
}

// away are preferences of a user for whom it is day.
func away(more string) string {
	if more != "" {
		more = ", " + more
	}
	return `{"time_zone": "Asia/Kathmandu"` + more + "}"
}

// movedRules let a user have one every two seconds, so that some wait whenever a change comes.
var movedRules = []throttle.Rule{{Max: 1, Per: 2 * time.Second, Kind: throttle.KindGap}}

// What waits for a user moves within two seconds of a change of the user's preferences, in both directions.
func TestPreferencesMoveWhatWaits(t *testing.T) {
	server, database := redistest.Start(t), postgrestest.Start(t)
	database.Migrate()
	now := time.Now().UTC()
	policy := fmt.Sprintf(`version: 1
windows:
  night: {closed: [{from: %q, to: %q}]}
  never: {open: [{days: %s, from: "00:00", to: "00:01"}]}
quiet_hours: {window: night, spread: 0s}
categories:
  default: {min_gap: 2s, max_defer: 20d}
`, now.Add(-time.Hour).Format("15:04"), now.Add(2*time.Hour).Format("15:04"),
		strings.ToLower(now.AddDate(0, 0, 3).Format("Mon")))
	d := &deployment{
		t: t, redis: server, url: server.URL(), database: database.URL(), policy: policyFile(t, policy),
	}
	d.workers = []*worker{d.start(), d.start()}
	r := newReceiver(t)
	slowest, broken := time.Duration(0), 0
	for _, name := range sortedNames(moves) {
		m := moves[name]
		prefix := strings.ReplaceAll(name, " ", "-") + "-"
		d.prefer(prefix, m.before)
		<-time.After(moveWithin)
		var items []item
		for i := range movedUsers * waitingEach {
			items = append(items, item{UserID: prefix + fmt.Sprint(i%movedUsers), To: r.server.URL})
		}
		d.accept(d.workers[0], items)
		<-time.After(3 * time.Second)
		changed := d.prefer(prefix, m.after)
		<-time.After(max(m.until, moveWithin) + 3*time.Second)
		took, wrong := movedAs(r.deliveries(), prefix, changed, m.lets, m.until)
		slowest, broken = max(slowest, took), broken+wrong
		t.Logf("%s: %d users, moved within %s, %d wrong", name, movedUsers, took, wrong)
	}
	rules := violations(r.deliveries(), movedRules...)
	t.Logf("preferences changed while something waits, %d cases: moved within %s, %d wrong, %d violations", len(moves),
		slowest, broken, rules)
	if slowest > moveWithin || broken+rules > 0 {
		t.Error("outside the bounds: moved within 2 s, nothing admitted that had to wait, no violation")
	}
}

func sortedNames[T any](of map[string]T) (names []string) {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// prefer replaces the preferences of the users of a case, through the processes in turn, and returns when it asked
// for that.
func (d *deployment) prefer(prefix, preferences string) (changed [movedUsers]time.Time) {
	d.t.Helper()
	for i := range movedUsers {
		changed[i] = time.Now()
		body := strings.NewReplacer("TOMORROW", changed[i].AddDate(0, 0, 1).Format(time.RFC3339),
			"SOON", changed[i].Add(8*time.Second).Format(time.RFC3339Nano)).Replace(preferences)
		url := "http://" + d.workers[i%2].api + "/v1/users/" + prefix + fmt.Sprint(i) + "/preferences"
		request, err := http.NewRequestWithContext(d.t.Context(), http.MethodPut, url, strings.NewReader(body))
		if err != nil {
			d.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := apitest.Client.Do(request)
		if err != nil {
			d.t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			d.t.Fatalf("%s: status %d", body, response.StatusCode)
		}
	}
	return changed
}

// movedAs reports how long after their change the users' notifications moved, and counts users who got something that
// had to wait, or nothing though they may.
func movedAs(got []delivery, prefix string, changed [movedUsers]time.Time, lets bool, until time.Duration,
) (took time.Duration, wrong int) {
	for i, at := range changed {
		before, first, last := 0, time.Time{}, time.Time{}
		for _, g := range got {
			if g.User != prefix+fmt.Sprint(i) {
				continue
			}
			switch admitted := g.AdmittedAt.Time(); {
			case admitted.Before(at):
				before++
			case until > 0 && !admitted.Before(at.Add(until-100*time.Millisecond)):
				if first.IsZero() || admitted.Before(first) {
					first = admitted
				}
			case lets && (first.IsZero() || admitted.Before(first)):
				first = admitted
			case !lets && admitted.After(last):
				last = admitted
			}
		}
		switch {
		case lets && (before > 0 || first.IsZero()), !lets && before == 0, until > 0 && first.IsZero():
			wrong++
		case lets:
			took = max(took, first.Sub(at))
		case until > 0:
			took = max(took, first.Sub(at.Add(until)))
		}
		if !last.IsZero() {
			took = max(took, last.Sub(at))
		}
	}
	return took, wrong
}
