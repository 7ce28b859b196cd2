// Package pushtest is the suite that every [push.Sender] passes: what each answer of a provider means, one call per
// delivery and no more, contexts that end before and during a call, messages of every size, targets, many deliveries at
// once, and that nothing secret shows and nothing is left behind.
//
// A channel's own test brings a fake of its provider, which asks a [Provider] how to answer. A suite says more when it
// can fail: [Cases] can be run against a sender that is wrong on purpose, with a [testing.TB] that only takes notes.
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
	// New makes a sender that calls the fake, with credentials, logging to log. Its own limit of a call's time must be
	// several minutes, so that it is the context that ends a call. The suite closes it where it has a Close.
	New func(log *slog.Logger) push.Sender
	// Target is where deliveries go. It leads to the fake.
	Target string
	// Good and Bad are targets that CheckTarget takes and refuses. Good ones are never called; Target is one more.
	Good, Bad []string
	// Secrets must never show: parts of the target and of the bad targets, the sender's credentials. Of letters and
	// digits only, so that no quoting changes them.
	Secrets []string
	// Identity is what the fake reports as [Call.Identity] of the notification with an id. Defaults to the id itself.
	Identity func(id string) string
	// Unplug makes the provider unreachable: from now on nobody listens, and open connections are closed. May be nil
	// when Features lists no Unreachable.
	Unplug func()
	// Drain returns when the fake has read all that was sent. It is called after Close. May be nil when a call is known
	// to the fake before Send returns, however Send ends.
	Drain func()
}

// Features are what a channel can do, and what can happen to it.
type Features struct {
	// Channel is the one under test. Contents go up to its limit.
	Channel channel.Descriptor
	// Answers are what may come of a call besides Delivered.
	Answers []Kind
	// Delays are those of Answers that can say when to come again.
	Delays []Kind
	// Content is true when the provider gets title and body, as nearly all do.
	Content bool
	// Data is true when the provider gets the data as it is.
	Data bool
	// MaxContent is how many bytes of content fit beside the channel's own; what is longer must be refused without a
	// call. Defaults to the contract's limit.
	MaxContent int
	// AnyTarget is true when CheckTarget refuses nothing, since the target is not used.
	AnyTarget bool
	// Patience is how long a call may take that should return at once. Defaults to 30 s.
	Patience time.Duration
}

// can tells whether an answer may come.
func (f Features) can(kind Kind) bool { return slices.Contains(f.Answers, kind) }

// maxContent is the longest content that is delivered, in bytes.
func (f Features) maxContent() int {
	if f.MaxContent > 0 {
		return f.MaxContent
	}
	return f.Channel.MostContent()
}

// Case is one part of the suite. Run calls subject once.
type Case struct {
	Name string
	Run  func(tb testing.TB, subject func(tb testing.TB, p *Provider) Subject)
}

// Cases lists what a sender with the features has to pass, each with a [Subject] of its own.
func Cases(f Features) []Case {
	if f.Patience == 0 {
		f.Patience = 30 * time.Second
	}
	var cases []Case
	for _, group := range [][]scenario{
		answerCases(f), contextCases(f), contentCases(f), targetCases(f),
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

// Run runs the suite. It makes a new subject for each case; the fake asks the [Provider] how to answer.
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
