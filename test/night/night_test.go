package night_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// night is one case. What it says stands in the golden file.
type night struct {
	title string
	// postgres puts the store into Postgres; policy replaces the one of all cases.
	postgres bool
	policy   string
	// processes are the roles of each process. Defaults to one with all roles.
	processes []string
	// slow cases take more than ten seconds; they run with the build tag accept.
	slow bool
	// prepare is done before the processes start, and trouble afterwards.
	prepare, trouble func(*deployment)
	// alerts are the names of those that fire if it lasts. There are none where somebody wants it so.
	alerts []string
	// do is what to do, for the runbook.
	do string
}

// chapter is a table of the runbook.
type chapter struct {
	name   string
	nights []*night
	// shows is the sentence that the table has of a case.
	shows func(said) string
}

func chapters() []chapter {
	return []chapter{
		{"reasons", slices.Concat(ordered(), ends(), providers()), func(s said) string { return s.explain }},
		{"problems", machines(), func(s said) string { return s.dashboard[0] }},
	}
}

// cases are those of all chapters.
func cases() []*night {
	var all []*night
	for _, c := range chapters() {
		all = append(all, c.nights...)
	}
	return all
}

func (n *night) roles() []string {
	if len(n.processes) == 0 {
		return []string{"api,worker,ops"}
	}
	return n.processes
}

// settled is for how long pages that are to be learned must say the same: longer than any trouble is given to pass.
const settled = 40 * time.Second

// run plays the case until everything says what the golden file has, and the right alerts would fire.
func (n *night) run(t *testing.T) {
	t.Helper()
	expected.Lock()
	want := expected.said[n.title]
	expected.Unlock()
	d := deploy(t, n)
	n.trouble(d)
	var last, before said
	var alerts []string
	since := time.Now()
	for deadline := time.Now().Add(*patience); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		last = said{user: d.user("ada"), explain: d.explain("n1"), dashboard: d.dashboard()}
		if !reflect.DeepEqual(general(last), before) {
			before, since = general(last), time.Now()
		}
		right := want.matches(last)
		if !right && (!*update || time.Since(since) < settled) {
			continue
		}
		if alerts = d.firing(n.alerts, d.calm, d.scrape()); slices.Equal(n.alerts, alerts) {
			if !right {
				learn(n.title, before)
			}
			return
		}
	}
	for _, view := range []struct{ name, want, got string }{
		{"user", want.user, last.user},
		{"explain", want.explain, last.explain},
		{"dashboard", strings.Join(want.dashboard, "\n          "), strings.Join(last.dashboard, "\n          ")},
		{"alerts", strings.Join(n.alerts, ", "), strings.Join(alerts, ", ")},
	} {
		t.Errorf("%s:\n  want    %s\n  it says %s", view.name, view.want, view.got)
	}
}

// TestNights plays the cases that take no longer than ten seconds; TestSlowNights the others.
func TestNights(t *testing.T) {
	t.Parallel()
	runAll(t, false)
}

func runAll(t *testing.T, slow bool) {
	t.Helper()
	for _, c := range cases() {
		if c.slow == slow {
			t.Run(c.title, func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	}
}
