// Package recordtest is the suite that every record passes: what is accepted is given out once, under the limits, fenced
// and leased, and reaches one end.
package recordtest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/audit"
	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Record is what the suite asks of one.
type Record interface {
	dispatch.Record
	intake.Record
	devices.Store
	audit.Source
	Cancel(ctx context.Context, id string) error
}

// Subject is an empty record under test.
type Subject struct {
	Record
	// Repair does once what the deployment's background work does: ends leases, expires, writes down what ended.
	Repair func(ctx context.Context) error
}

const (
	// Lanes, Lease and MaxCrashes are what a subject must be set up with; the lease is that of the mailboxes.
	Lanes      = 2
	Lease      = 300 * time.Millisecond
	MaxCrashes = 3
)

// Terms are those of every category: "free" is not throttled, "slow" lets one an hour go, any other two a minute.
func Terms(_, category string) mailbox.Terms {
	terms := mailbox.Terms{MaxDefer: 24 * time.Hour}
	switch category {
	case "free":
	case "slow":
		terms.Plan.Rules = []throttle.Rule{{Max: 1, Per: time.Hour}}
	default:
		terms.Plan.Rules = []throttle.Rule{{Max: 2, Per: time.Minute}}
	}
	return terms
}

// Case is one part of the suite.
type Case struct {
	Name string
	Run  func(tb testing.TB, s Subject)
}

// Cases lists what a record has to pass, each with a [Subject] of its own.
func Cases() []Case {
	var cases []Case
	for _, c := range []struct {
		name string
		run  func(*probe)
	}{
		{"AcceptedOnce", acceptedOnce},
		{"AcceptedInOneBatchTwice", acceptedTwiceInOneBatch},
		{"ContentComesBack", contentComesBack},
		{"GivenOutOnceAndDelivered", delivered},
		{"TheSameQuestionHasTheSameAnswer", sameQuestion},
		{"SettledTwiceIsSettledOnce", settledTwice},
		{"ThrottledWaits", throttled},
		{"FailureIsTriedAgain", retried},
		{"ReturnedIsNoAttempt", returned},
		{"HeldIsNoAttempt", held},
		{"ThrottledByItsProviderComesBackBehind", throttledByItsProvider},
		{"FailedEnds", failed},
		{"CancelledWhileItWaits", cancelled},
		{"NotCancelledOnceItIsOut", notCancelled},
		{"ReplacedByItsCollapseKey", replaced},
		{"ReplacedInFlight", replacedInFlight},
		{"ExpiresWhileItWaits", expires},
		{"RetryAfterItsEndExpires", retryTooLate},
		{"LeaseEndsAndTheResultIsStale", leaseEnds},
		{"CrashLoopEnds", crashLoop},
		{"KeysAreClaimedOnce", keys},
		{"KeysAreClaimedOnceByManyAtOnce", keysAtOnce},
		{"UnknownIsNotFound", unknown},
		{"AuditorSees", auditorSees},
		{"DevicesAreKept", devicesAreKept},
		{"GoneDevicesAreDeactivated", goneDevicesAreDeactivated},
		{"DevicesAreLimited", devicesAreLimited},
		{"DeliveriesAreKept", deliveriesAreKept},
	} {
		cases = append(cases, Case{Name: c.name, Run: func(tb testing.TB, s Subject) {
			tb.Helper()
			c.run(&probe{TB: tb, Subject: s})
		}})
	}
	return cases
}

// Run runs the suite. It makes a new subject for each case.
func Run(t *testing.T, subject func(tb testing.TB) Subject) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, subject(t))
		})
	}
}

// probe is a case at work.
type probe struct {
	testing.TB
	Subject
	made, asked int
}

// notification makes one with defaults for what the case does not care about.
func (p *probe) notification(change func(*notification.Notification)) *notification.Notification {
	p.made++
	n := &notification.Notification{
		ID: "n" + strconv.Itoa(p.made), UserID: "ada", Category: "free", Channel: notification.ChannelLog, To: "target",
		Priority: notification.PriorityNormal,
	}
	if change != nil {
		change(n)
	}
	return n
}

// accept has one accepted.
func (p *probe) accept(change func(*notification.Notification)) (*notification.Notification, dispatch.Tick) {
	p.Helper()
	n := p.notification(change)
	accepted, err := p.Accept(p.Context(), []*notification.Notification{n})
	if err != nil || accepted[0].Known || accepted[0].At.IsZero() {
		p.Fatalf("accept %s: %+v, %v", n.ID, accepted, err)
	}
	return n, accepted[0].Tick
}

// take asks with a tick.
func (p *probe) take(tick dispatch.Tick) dispatch.Answer {
	p.Helper()
	p.asked++
	answer, err := p.Take(p.Context(), dispatch.Question{Tick: tick, Nonce: "nonce" + strconv.Itoa(p.asked), Pulled: true})
	if err != nil {
		p.Fatalf("take with tick %s: %v", tick.ID, err)
	}
	return answer
}

// grant asks with a tick until it is granted, and wants that to be soon.
func (p *probe) grant(tick dispatch.Tick) *dispatch.Grant {
	p.Helper()
	for range 100 {
		answer := p.take(tick)
		if answer.Grant != nil {
			return answer.Grant
		}
		if answer.Wait == nil || answer.Wait.For > 5*time.Second {
			p.Fatalf("tick %s is not granted: %+v", tick.ID, answer.Wait)
		}
		<-time.After(max(answer.Wait.For, 10*time.Millisecond))
	}
	p.Fatalf("tick %s is never granted", tick.ID)
	return nil
}

func (p *probe) settle(g *dispatch.Grant, o dispatch.Outcome) dispatch.Settlement {
	p.Helper()
	s, err := p.Settle(p.Context(), g, o)
	if err != nil {
		p.Fatalf("settle %s: %v", g.Notification.ID, err)
	}
	return s
}

// want checks what a notification has become.
func (p *probe) want(id string, status notification.Status, attempts int, reason string) *notification.View {
	p.Helper()
	v, err := p.View(p.Context(), id)
	if err != nil {
		p.Fatalf("view %s: %v", id, err)
	}
	if v.Status != status || v.Attempts != attempts || reason != "" && v.Reason != reason {
		p.Fatalf("%s is %s after %d attempts (%s), want %s after %d (%s)", id, v.Status, v.Attempts, v.Reason, status, attempts, reason)
	}
	return v
}

// repairUntil repairs until something is so.
func (p *probe) repairUntil(what string, ok func() bool) {
	p.Helper()
	for range 500 {
		if err := p.Repair(p.Context()); err != nil {
			p.Fatalf("repair: %v", err)
		}
		if ok() {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	p.Fatalf("never came: %s", what)
}

// becomes tells whether a notification has the status.
func (p *probe) becomes(id string, status notification.Status) func() bool {
	return func() bool {
		v, err := p.View(p.Context(), id)
		return err == nil && v.Status == status
	}
}
