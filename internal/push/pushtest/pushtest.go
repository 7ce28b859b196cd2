// Package pushtest is the suite that every [push.Sender] passes. It covers what each response of a provider means, one
// call per delivery and no more, contexts that end before and during a call, messages of every size, targets, and many
// deliveries at once. It also checks that no secret shows and that nothing is left behind.
//
// A channel's own test brings a fake of its provider. The fake asks a [Provider] how to respond. The suite itself is
// tested too: [Cases] also run against senders that are wrong on purpose, with a [testing.TB] that only records
// failures.
package pushtest

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
)

// Subject is a channel under test: its sender, and a fake of its provider that nobody has called yet.
type Subject struct {
	// New makes a sender with credentials that calls the fake and logs to log. Its own time-out of a call must be
	// several minutes, so that the context ends a call first. The suite closes the sender if it has a Close.
	New func(log *slog.Logger) push.Sender
	// Target is where deliveries go. It leads to the fake.
	Target string
	// Good and Bad are targets that CheckTarget must accept and refuse. Good ones are never called. Target is good too.
	Good, Bad []string
	// Secrets must never show: parts of the target and of the bad targets, and the sender's credentials. They have only
	// letters and digits, so that no quoting changes them.
	Secrets []string
	// Identity is the [Call.Identity] that the fake reports for the notification with an id. Defaults to the id itself.
	Identity func(id string) string
	// Unplug makes the provider unreachable: from then on nobody listens, and open connections are closed. It may be
	// nil when Features lists no Unreachable.
	Unplug func()
	// Drain returns once the fake has read everything that was sent. It is called after Close. It may be nil when the
	// fake knows of a call before Send returns, however Send ends.
	Drain func()
}

// Features are what a channel can do, and what can happen to its calls.
type Features struct {
	// Channel is the channel under test. Contents go up to its limit.
	Channel channel.Descriptor
	// Kinds are what may become of a call besides Delivered.
	Kinds []Kind
	// Delays are those of Kinds that can say when to retry.
	Delays []Kind
	// Unnamed is when the sender says to retry after Throttled when the provider does not say.
	Unnamed time.Duration
	// Content is true when the provider gets title and body, as nearly all do.
	Content bool
	// NeedsText is true when the provider takes nothing without a title or a body. Such content must be refused
	// without a call.
	NeedsText bool
	// Data is true when the provider gets the data unchanged.
	Data bool
	// MaxContent is how many bytes of content fit into the channel's messages. Longer content must be refused without a
	// call. Defaults to the channel's limit.
	MaxContent int
	// AnyTarget is true when CheckTarget refuses nothing, since the target is not used.
	AnyTarget bool
	// Patience is how long the suite waits for a call that should return at once. Defaults to 30 s.
	Patience time.Duration
}

// can reports whether a call may end in this way.
func (f Features) can(kind Kind) bool { return slices.Contains(f.Kinds, kind) }

// maxContent is the longest content that is delivered, in bytes.
func (f Features) maxContent() int {
	if f.MaxContent > 0 {
		return f.MaxContent
	}
	return f.Channel.MostContent()
}

// Case is one case of the suite. Run calls subject once.
type Case struct {
	Name string
	Run  func(tb testing.TB, subject func(tb testing.TB, p *Provider) Subject)
}

// Cases lists the cases that a sender with the features has to pass, each with a [Subject] of its own.
func Cases(f Features) []Case {
	if f.Patience == 0 {
		f.Patience = 30 * time.Second
	}
	var cases []Case
	for _, group := range [][]scenario{
		responseCases(f), contextCases(f), contentCases(f), targetCases(f),
		crowdCases(f),
	} {
		for _, s := range group {
			cases = append(cases, Case{Name: s.name, Run: func(tb testing.TB,
				subject func(testing.TB, *Provider) Subject,
			) {
				tb.Helper()
				p := newProbe(tb, f, subject)
				s.run(p)
				p.finish()
			}})
		}
	}
	return cases
}

// Run runs the suite, with a new subject for each case.
func Run(t *testing.T, f Features, subject func(tb testing.TB, p *Provider) Subject) {
	t.Helper()
	for _, c := range Cases(f) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, subject)
		})
	}
}

// scenario is a case before it has a subject.
type scenario struct {
	name string
	run  func(p *probe)
}
