package providertest

import (
	"net/http"
	"regexp"
	"time"
)

// Step is where in the protocol a call is. HTTP has one step only.
type Step uint8

const (
	// Called is a request over HTTP, and a recipient (RCPT TO) over SMTP.
	Called Step = iota
	// Connected is a new connection over SMTP, before the greeting. It has no target.
	Connected
	// LoggedIn is AUTH over SMTP, with the user as target.
	LoggedIn
	// Begun is MAIL FROM over SMTP, with the sender's address as target.
	Begun
	// Announced is DATA over SMTP, before the content, with the recipient as target.
	Announced
	// Sent is the whole content over SMTP, with the recipient as target.
	Sent
)

// Call is one that the provider got.
type Call struct {
	At   time.Time
	Step Step
	// Target is who should get it.
	Target string
	// Proto, Header and Body are the request's. Over SMTP, Body is the content.
	Proto  string
	Header http.Header
	Body   []byte
	// Reply is how the provider responded.
	Reply Reply
}

// End is what becomes of the connection.
type End uint8

const (
	// Keeps: the reply is sent, and the connection goes on.
	Keeps End = iota
	// Leaves: the reply is sent, and the connection ends after it; over HTTP/2 with GOAWAY.
	Leaves
	// Hangs: nothing is sent until the caller hangs up.
	Hangs
	// Drips: header and body are sent, and further bytes without an end. Over SMTP the reply never ends.
	Drips
	// Aborts: the call ends without a reply; over HTTP/2 the connection goes on.
	Aborts
	// HangsUp: the connection is closed without a reply.
	HangsUp
	// Resets: the connection is reset (RST) without a reply.
	Resets
	// HalfCloses: the provider closes its direction of the connection without a reply, and goes on reading.
	HalfCloses
	// GoesAway: GOAWAY says that the call was not processed. HTTP/2 only.
	GoesAway
)

// Reply is how a provider responds. The zero Reply accepts.
type Reply struct {
	// Status is HTTP's, or SMTP's code. Defaults to success.
	Status int
	// Header is HTTP's.
	Header map[string]string
	// Body is HTTP's, or the words after SMTP's code.
	Body string
	// Wait is how long the reply is held back.
	Wait time.Duration
	// End is what becomes of the connection. Defaults to Keeps.
	End End
}

// Rule says to which calls a provider responds with a reply. All that it names must hold.
type Rule struct {
	// Step that the call is at.
	Step Step
	// Target reports whether a call's target fits. Nil fits all.
	Target func(target string) bool
	// Over is how many calls a second are passed on to the rules below: it holds for those beyond. 0 is for all.
	Over int
	// Skip is for how many calls to a target it does not hold, and First for how many it holds after those; 0 is for
	// all.
	Skip, First int
	// Until is how long after the first call to a target it holds. 0 is for ever.
	Until time.Duration
	// Reply is the response.
	Reply Reply
}

// Matching fits targets in which a regular expression finds something.
func Matching(expression string) func(string) bool { return regexp.MustCompile(expression).MatchString }

// met is what the provider remembers of a target at a step.
type met struct {
	calls int
	first time.Time
}

// active is a rule at work.
type active struct {
	Rule
	passed []time.Time // the calls of the last second that were passed on, when Over is given
}

// holds reports whether a rule is about a call of a target that was met before.
func (a *active) holds(c Call, m met) bool {
	switch {
	case a.Step != c.Step || a.Target != nil && !a.Target(c.Target):
		return false
	case m.calls <= a.Skip || a.First > 0 && m.calls > a.Skip+a.First:
		return false
	case a.Until > 0 && c.At.Sub(m.first) >= a.Until:
		return false
	}
	return a.Over == 0 || !a.pass(c.At)
}

// pass reports whether a call is within the rate.
func (a *active) pass(now time.Time) bool {
	for len(a.passed) > 0 && now.Sub(a.passed[0]) >= time.Second {
		a.passed = a.passed[1:]
	}
	if len(a.passed) >= a.Over {
		return false
	}
	a.passed = append(a.passed, now)
	return true
}
