package providertest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/egress/egresstest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/timespan"
	"github.com/pacer-notify/pacer/test/providertest"
)

// script is one response as a provider documents it, and what it means for the notification.
type script struct {
	// row is the response as docs/responses.md has it.
	row string
	// at and to say to what the provider responds so. Default to the delivery.
	at providertest.Step
	to func(target string) bool
	// reply is what it sends, to the first calls; 0 is to all.
	reply providertest.Reply
	first int
	// set is which of the bench's descriptors is called. Defaults to the first.
	set int
	// target is whom it is for. Defaults to the bench's.
	target string
	// override is the notification's content in the provider's format.
	override string
	// unread is true when the sender does not ask the table what the response means.
	unread bool
	// means is the outcome: the class, whether the throttle's slot is kept or returned, whether anybody got it, whom
	// it concerns, and how long to wait.
	means string
}

// bench is a channel under test, with its provider.
type bench struct {
	scripts []script
	// follow replaces the provider's script. base stays at its end.
	follow func(...providertest.Rule)
	// unplug has the provider refuse connections.
	unplug func()
	base   []providertest.Rule
	// delivery tells the targets of deliveries from others. Nil means that there are no others.
	delivery func(target string) bool
	// channels are descriptors that lead to the provider.
	channels []channel.Descriptor
	target   string
}

// benches has one for each channel whose provider responds. The file with a channel's scripts adds it.
var benches = map[notification.Channel]func(*testing.T) *bench{}

// add puts a channel's bench into benches.
func add(channel notification.Channel, start func(*testing.T) *bench) bool {
	benches[channel] = start
	return true
}

// TestEachRowIsProvoked compares the tables of all channels with providers: each row is provoked by a script, through
// the sender that a process opens, and means what the script says. A row that says something else is noticed.
func TestEachRowIsProvoked(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, described := range (settings.Channels{}).All() {
		if len(described.Responses) == 0 {
			continue
		}
		rows += len(described.Responses)
		t.Run(string(described.Name), func(t *testing.T) {
			t.Parallel()
			start := benches[described.Name]
			if start == nil {
				t.Fatal("there is no provider that plays this channel's: write its scripts, and add its bench")
			}
			start(t).compare(t, described.Responses)
		})
	}
	if rows < 60 {
		t.Errorf("the channels know %d responses, want 60 at least", rows)
	}
}

// compare holds a table against the scripts.
func (b *bench) compare(t *testing.T, table push.Table) {
	t.Helper()
	for _, s := range b.scripts {
		t.Run(s.row, func(t *testing.T) { // not parallel: one provider responds to all
			i := slices.IndexFunc(table, func(row push.Row) bool { return row.Response() == s.row })
			if i < 0 {
				t.Fatalf("a provider responds so, and the table has no row for it")
			}
			if got := b.send(t, s); got != s.means {
				t.Fatalf("the outcome is %q, want %q", got, s.means)
			}
			if s.unread {
				return
			}
			row := table[i]
			defer func() { table[i] = row }()
			for _, mutant := range mutants(row) {
				if table[i] = mutant; b.send(t, s) == s.means {
					t.Errorf("with the row %+v instead of %+v the outcome is the same: another row is provoked", mutant, row)
				}
			}
		})
	}
	for _, row := range table {
		if !slices.ContainsFunc(b.scripts, func(s script) bool { return s.row == row.Response() }) {
			t.Errorf("no script provokes the row %q", row.Response())
		}
	}
	for _, status := range []int{299, 499, 599} {
		if row := table.Row(push.Response{Status: status}); row.Status == 0 {
			t.Errorf("the table has no row for %d", status)
		}
	}
}

// mutants are rows that say something else.
func mutants(row push.Row) []push.Row {
	class, concerns, wait, unsent := row, row, row, row
	if class.Class = push.Permanent; row.Class == push.Permanent {
		class.Class = push.Transient
	}
	if concerns.Concerns = push.ConcernsTarget; row.Concerns == push.ConcernsTarget {
		concerns.Concerns = push.ConcernsHost
	}
	wait.Wait += 17 * time.Second
	unsent.Unsent = !row.Unsent
	return slices.DeleteFunc([]push.Row{class, concerns, wait, unsent}, func(mutant push.Row) bool {
		return outcomeOf(mutant) == outcomeOf(row) // nobody is told a difference
	})
}

// send has a process's sender deliver one notification while the provider follows a script.
func (b *bench) send(t *testing.T, s script) string {
	t.Helper()
	rule := providertest.Rule{Step: s.at, Target: b.delivery, First: s.first, Reply: s.reply}
	if s.to != nil {
		rule.Target = s.to
	}
	var rules []providertest.Rule
	if s.reply.Status != 0 || s.reply.End != providertest.Keeps {
		rules = append(rules, rule)
	}
	b.follow(append(rules, b.base...)...)
	described := b.channels[s.set]
	opened, err := channel.Open([]channel.Descriptor{described}, channel.Process{
		Log: slog.New(slog.DiscardHandler),
		Targets: httpsend.GuardedConfig{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Resolver: egresstest.Resolver(func(string) []netip.Addr { // all names lead to this machine
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
			}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	m := push.Message{Attempt: 1, AdmittedAt: time.Unix(1_800_000_000, 0), Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: described.Name, To: cmp.Or(s.target, b.target), Title: "hello", Body: "world",
		Priority: notification.PriorityNormal, CreatedAt: time.Unix(1_800_000_000, 0),
	}}
	if s.override != "" {
		m.Override = json.RawMessage(s.override)
	}
	if err := opened.CheckDelivery(m.Notification); err != nil {
		t.Fatal(err)
	}
	ctx, dripped := push.WatchDrip(t.Context())
	failure := push.Classify(opened.Senders[described.Name].Send(ctx, m))
	code := strings.Replace(codeOf.FindString(s.row), " ", ".", 1)
	if failure != nil && !strings.Contains(failure.Code, code) {
		t.Errorf("the code is %q", failure.Code)
	}
	text := outcome(failure)
	if dripped() {
		text += ", dripped"
	}
	return text
}

// codeOf is what a row's code begins with: its status, and the provider's word where there is one.
var codeOf = regexp.MustCompile(`^\d{3}( \w+)?`)

// outcome puts into words what became of a delivery.
func outcome(failure *push.Error) string {
	if failure == nil {
		return "delivered kept yes"
	}
	slot, reached := "returned", push.Row{Class: failure.Class}.Reached()
	if failure.Counts() {
		slot = "kept"
	}
	if failure.Reached || failure.Partial {
		reached = "yes"
	}
	whom := map[push.Scope]string{
		push.ConcernsTarget: "target", push.ConcernsHost: "host", push.ConcernsCredential: "credential",
		push.ConcernsEverybody: "everybody",
	}[failure.Whom()]
	text := fmt.Sprintf("%s %s %s %s", failure.Class, slot, reached, whom)
	if failure.RetryAfter > 0 {
		text += " " + timespan.Text(failure.RetryAfter)
	}
	return text
}

// outcomeOf is what a row says.
func outcomeOf(row push.Row) string {
	if row.Class == 0 {
		return outcome(nil)
	}
	return outcome(&push.Error{Class: row.Class, Concerns: row.Concerns, RetryAfter: row.Wait, Unsent: row.Unsent})
}

// status responds with a status alone.
func status(code int) providertest.Reply { return providertest.Reply{Status: code} }

// with responds with a status and a text.
func with(code int, text string) providertest.Reply {
	return providertest.Reply{Status: code, Body: text}
}
