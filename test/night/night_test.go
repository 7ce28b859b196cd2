package night_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// night is one case. Its texts are word for word, but for placeholders such as TIME.
type night struct {
	// title is what the case is called, and happens what is wrong in it, in a sentence.
	title, happens string
	// postgres puts the store into Postgres; policy replaces the one of all cases.
	postgres bool
	policy   string
	// processes are the roles of each process. Defaults to one with all roles.
	processes []string
	// slow cases take more than half a minute; they run with the build tag accept.
	slow bool
	// prepare is done before the processes start, and trouble afterwards.
	prepare, trouble func(*deployment)

	// user and explain are what the commands say of the user ada and of the notification n1. Dashboard are the
	// sentences of the page, and alerts the names of those that fire if it lasts.
	user, explain string
	dashboard     []string
	alerts        []string
	// calm says why no alert fires, where none does.
	calm string
	// do is what to do.
	do string
}

func (c *night) roles() []string {
	if len(c.processes) == 0 {
		return []string{"api,worker,ops"}
	}
	return c.processes
}

// placeholders stand for what differs from run to run.
var placeholders = map[string]string{
	"TIME":     `(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}`,
	"CLOCK":    `\d\d:\d\d`,
	"DURATION": `[0-9hms.]+`,
	"HOST":     `127\.0\.0\.1(?::\d+)?`,
	"PROCESS":  `[\w.-]+-[A-Z2-7]{8}`,
	"COUNT":    `\d+`,
	"VERSION":  `[0-9a-f]{6,64}`,
	"FILE":     `/\S+`,
	"OPERATOR": `\S+ \(127\.0\.0\.1\)`,
	"SECONDS":  `\d+\.\d`,
	"USER":     `\w+`,
}

var placeholder = regexp.MustCompile(`\b(TIME|CLOCK|DURATION|HOST|PROCESS|COUNT|VERSION|FILE|OPERATOR|SECONDS|USER)\b`)

// matches reports whether a text is as the table has it.
func matches(want, got string) bool {
	expression := placeholder.ReplaceAllStringFunc(regexp.QuoteMeta(want), func(name string) string {
		return placeholders[name]
	})
	return regexp.MustCompile(`(?s)^` + expression + `$`).MatchString(got)
}

// allMatch reports whether each line is as the table has it.
func allMatch(want, got []string) bool {
	return slices.EqualFunc(want, got, matches)
}

// run plays the case until everything says what the table has.
func (c *night) run(t *testing.T) {
	t.Helper()
	d := deploy(t, c)
	c.trouble(d)
	var last seen
	for deadline := time.Now().Add(*patience); ; <-time.After(100 * time.Millisecond) {
		last = seen{user: d.user("ada"), explain: d.explain("n1"), dashboard: d.dashboard()}
		if said := matches(c.user, last.user) && matches(c.explain, last.explain) &&
			allMatch(c.dashboard, last.dashboard); said || time.Now().After(deadline) {
			last.alerts = d.firing(c.alerts, d.calm, d.scrape())
			if said && slices.Equal(c.alerts, last.alerts) {
				return
			}
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for _, view := range []struct{ name, want, got string }{
		{"user", c.user, last.user},
		{"explain", c.explain, last.explain},
		{"dashboard", strings.Join(c.dashboard, "\n          "), strings.Join(last.dashboard, "\n          ")},
		{"alerts", strings.Join(c.alerts, ", "), strings.Join(last.alerts, ", ")},
	} {
		t.Errorf("%s:\n  want    %s\n  it says %s", view.name, view.want, view.got)
	}
}

// TestNights plays the cases that take no longer than half a minute; TestSlowNights the others.
func TestNights(t *testing.T) {
	t.Parallel()
	runAll(t, false)
}

func runAll(t *testing.T, slow bool) {
	t.Helper()
	for _, section := range sections() {
		for _, c := range section.nights {
			if c.slow == slow {
				t.Run(c.title, func(t *testing.T) {
					t.Parallel()
					c.run(t)
				})
			}
		}
	}
}
