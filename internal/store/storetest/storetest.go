// Package storetest is the suite that every store passes: what is accepted is given out once, under the limits,
// fenced and leased, and reaches one end.
package storetest

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Store is what the suite asks of one.
type Store interface {
	dispatch.Store
	intake.Store
	devices.Store
	invariant.Source
	Cancel(ctx context.Context, id string) error
}

// Subject is an empty store under test.
type Subject struct {
	Store
	// Repair does once what the deployment's background work does: ends leases, expires, writes down what ended.
	Repair func(ctx context.Context) error
}

const (
	// Partitions, Lease and MaxCrashes are what a subject must be set up with; the lease is that of the agendas.
	Partitions = 2
	Lease      = 300 * time.Millisecond
	MaxCrashes = 3
)

// Settings are those of every category: "free" is not throttled, "slow" lets one an hour go, any other two a minute.
func Settings(_, category string) agenda.Settings {
	settings := agenda.Settings{MaxDefer: 24 * time.Hour}
	switch category {
	case "free":
	case "slow":
		settings.Plan.Rules = []throttle.Rule{{Max: 1, Per: time.Hour}}
	default:
		settings.Plan.Rules = []throttle.Rule{{Max: 2, Per: time.Minute}}
	}
	return settings
}

// Case is one part of the suite.
type Case struct {
	Name string
	Run  func(tb testing.TB, s Subject)
}

// Cases lists what a store has to pass, each with a [Subject] of its own.
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
		{"TheSameRoundHasTheSameAnswer", sameRound},
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
	made, rounds int
	held         []heldWakeup
	granted      []*dispatch.Grant
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
func (p *probe) accept(change func(*notification.Notification)) *notification.Notification {
	p.Helper()
	n := p.notification(change)
	accepted, err := p.Accept(p.Context(), []*notification.Notification{n})
	if err != nil || accepted[0].Known || accepted[0].At.IsZero() {
		p.Fatalf("accept %s: %+v, %v", n.ID, accepted, err)
	}
	return n
}

// heldWakeup is a wake-up that the probe has at work, to be asked for at a moment.
type heldWakeup struct {
	dispatch.Wakeup

	partition int
	at        time.Time
}

func (p *probe) serve(r dispatch.TakeRequest) dispatch.TakeResult {
	p.Helper()
	reply, err := p.Take(p.Context(), r)
	if err != nil {
		p.Fatalf("serve partition %d: %v", r.Partition, err)
	}
	return reply
}

// round asks once in a partition, with room for one delivery, and pulls; what is granted and can be claimed is kept.
func (p *probe) round(partition int) {
	p.Helper()
	p.rounds++
	r := dispatch.TakeRequest{Partition: partition, ID: "round" + strconv.Itoa(p.rounds), Capacity: 1, Pull: 8}
	p.held = slices.DeleteFunc(p.held, func(h heldWakeup) bool {
		due := h.partition == partition && time.Until(h.at) <= 0
		if due {
			r.Wakeups = append(r.Wakeups, h.Wakeup)
		}
		return due
	})
	reply := p.serve(r)
	answered := make([]dispatch.ServedWakeup, 0, len(reply.Results)+len(reply.Served))
	for i, taken := range reply.Results {
		answered = append(answered, dispatch.ServedWakeup{Wakeup: r.Wakeups[i], WakeupResult: taken})
	}
	for _, a := range append(answered, reply.Served...) {
		if a.Held {
			w := dispatch.Wakeup{UserID: a.UserID, Generation: a.Generation, Categories: a.WakeupResult.Categories}
			p.held = append(p.held, heldWakeup{w, partition, time.Now().Add(a.After)})
		}
		for _, g := range a.Grants {
			ok, err := p.Claim(p.Context(), g)
			if err != nil {
				p.Fatalf("claim %s: %v", g.Notification.ID, err)
			}
			if ok {
				p.granted = append(p.granted, g)
			}
		}
	}
	for _, w := range reply.Pulled {
		p.held = append(p.held, heldWakeup{w, partition, time.Now()})
	}
}

// look makes the rounds that show what may go now.
func (p *probe) look() {
	p.Helper()
	for partition := range Partitions {
		p.round(partition)
		p.round(partition)
	}
}

// grant asks until something is granted, and wants that to be soon.
func (p *probe) grant() *dispatch.Grant {
	p.Helper()
	for range 500 {
		if len(p.granted) > 0 {
			g := p.granted[0]
			p.granted = p.granted[1:]
			return g
		}
		p.look()
		<-time.After(10 * time.Millisecond)
	}
	p.Fatal("nothing is granted")
	return nil
}

// wantNoGrant wants that nothing may go now.
func (p *probe) wantNoGrant(fault string) {
	p.Helper()
	p.look()
	if len(p.granted) > 0 {
		p.Fatalf("%s: %+v", fault, p.granted[0])
	}
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
		p.Fatalf("%s is %s after %d attempts (%s), want %s after %d (%s)", id, v.Status, v.Attempts, v.Reason, status,
			attempts, reason)
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
