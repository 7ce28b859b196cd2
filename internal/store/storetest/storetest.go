// Package storetest is the suite that every store passes: each accepted notification is granted to one worker at a
// time, under the limits and with a lease, a late result is refused, and the notification reaches exactly one end.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Store is what the suite needs of a store.
type Store interface {
	dispatch.Store
	intake.Store
	devices.Store
	invariant.Source
	preferences.Source
	Preferences(ctx context.Context, userID string) (*notification.Preferences, error)
	SetPreferences(ctx context.Context, userID string, p *notification.Preferences, was int64) error
	SetManyPreferences(ctx context.Context, of map[string]*notification.Preferences) error
	ClearPreferences(ctx context.Context, userID string) error
	OptOut(ctx context.Context, userID, category string) error
	OptIn(ctx context.Context, userID, category string) error
	Cancel(ctx context.Context, id string) error
	CancelGroup(ctx context.Context, userID, groupKey string) (int, error)
	Change(ctx context.Context, id string, c notification.Change) error
	List(ctx context.Context, f notification.Filter) (*notification.Page, error)
	Find(ctx context.Context, f notification.Filter) (*notification.Found, error)
	Superseded(ctx context.Context, n *notification.Notification) (bool, error)
}

// Subject is an empty store under test.
type Subject struct {
	Store
	// Crashing is the same store for a worker that is going to crash: its leases are [ShortLease].
	Crashing dispatch.Store
	// Repair does the deployment's background work once: it ends leases, expires notifications, and writes ends.
	Repair func(ctx context.Context) error
	// Want says which events somebody wants. Events returns all that there are.
	Want   func(ctx context.Context, types []events.Type) error
	Events func(ctx context.Context) ([]events.Event, error)
}

// A subject must be set up with these.
const (
	Partitions = 2
	Lease      = time.Hour // longer than any case takes
	ShortLease = 300 * time.Millisecond
	MaxCrashes = 3
)

// digestedVersion is the version of the policy that grants in the category "digested".
const digestedVersion = "00000000000d16e5"

// asked counts the requests for the settings of the category "changing".
var asked atomic.Int64

// Settings are those of every category: "free" is not throttled, "slow" admits one an hour, any other two a minute.
// In "digested" up to three go as one.
// "changing" is not throttled either, and on another basis each time. It is night in "dropping", which ends what is due
// then, unless it is critical. "overflow-ACTION" admits one an hour, and where two wait its ladder does that.
func Settings(_, category string) agenda.Settings {
	settings := agenda.Settings{MaxDefer: 24 * time.Hour}
	if action, ladder := strings.CutPrefix(category, "overflow-"); ladder {
		settings.Overflow = notification.Ladder{{Waiting: 2, Then: notification.OverflowAction(action)}}
		settings.Digest = &player.Digest{MaxItems: 3, Bundles: true, ByLadder: true}
		category = "slow"
	}
	switch category {
	case "free":
	case "changing":
		settings.Basis = notification.Basis{
			PolicyVersion: fmt.Sprintf("%016x", asked.Add(1)), Zone: "Asia/Kathmandu",
		}
	case "dropping":
		now := throttle.MicrosOf(time.Now())
		settings.Plan.Closed = throttle.Closed{{From: now.Add(-time.Hour), Until: now.Add(time.Hour)}}
		settings.Drops, settings.ExemptFrom = true, notification.PriorityCritical
	case "digested":
		settings.Digest = &player.Digest{MaxItems: 3, Alone: notification.PriorityHigh}
		settings.Basis.PolicyVersion = digestedVersion
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
		{"AnIDIsOneUsers", idIsOneUsers},
		{"RepeatsAreCompared", repeatsAreCompared},
		{"ContentComesBack", contentComesBack},
		{"GrantedOnceAndDelivered", delivered},
		{"TheSameRequestHasTheSameResult", sameRequest},
		{"ThrottledWaits", throttled},
		{"ReturnedOrUntriedIsNoAttempt", noAttempt},
		{"RefusedOrThrottledComesBackBehind", comesBackBehind},
		{"CancelledWhileItWaits", cancelled},
		{"ChangedWhileItWaits", changed},
		{"ChangedPlace", changedPlace},
		{"ReleasedGoes", released},
		{"AGroupIsCancelled", groupCancelled},
		{"ReplacedInFlight", replacedInFlight},
		{"ReplacedSlotIsUsed", replacedSlotIsUsed},
		{"SupersededIsKnown", supersededIsKnown},
		{"QuietHoursDrop", dropped},
		{"OverflowLadders", overflows},
		{"OverflowOfManyAtOnce", overflowsAtOnce},
		{"LeaseEndsAndTheResultIsStale", leaseEnds},
		{"CrashLoopEnds", crashLoop},
		{"KeysAreClaimedOnce", keys},
		{"AKeyBelongsToWhatWasAcceptedWithIt", keysAndIDs},
		{"KeysAreClaimedOnceByManyAtOnce", keysAtOnce},
		{"ManyKeysAreClaimedTogether", manyKeys},
		{"BatchesOfKeysDoNotWaitForEachOther", keysInAnyOrder},
		{"UnknownIsNotFound", unknown},
		{"InvariantCheckerSees", checkerSees},
		{"InvariantCheckerSeesBehindMany", checkerSeesBehindMany},
		{"InvariantCheckerSeesHours", checkerSeesHours},
		{"InvariantCheckerSeesTheBasis", checkerSeesTheBasis},
		{"WhatWaitsOfAGroupGoesAsOne", goesAsOne},
		{"ADigestThatMayHaveArrivedComesAgainAsItIs", comesAgainAsItIs},
		{"ADigestThatReachedNobodyDissolves", dissolves},
		{"ADigestOutlivesItsWorker", outlivesItsWorker},
		{"ADigestCountsOnceWhateverWasTriedBefore", wasTriedBefore},
		{"WhatMayHaveArrivedAloneStaysAlone", staysAlone},
		{"DevicesAreKept", devicesAreKept},
		{"GoneDevicesAreDeactivated", goneDevicesAreDeactivated},
		{"DevicesAreLimited", devicesAreLimited},
		{"DeliveriesAreKept", deliveriesAreKept},
		{"EventsTell", eventsTell},
		{"RepliesAreKept", repliesAreKept},
		{"AttemptsAreKept", attemptsAreKept},
		{"BasisIsKept", basisIsKept},
		{"MaxDeferSaysWhichSlot", maxDeferSaysWhichSlot},
		{"ListsWhatTheFilterSelects", listed},
		{"ListsWaitingByStatus", listedWaiting},
		{"RefusesForeignCursors", foreignCursors},
		{"PreferencesAreKept", preferencesAreKept},
		{"PreferencesThatAreTheSameChangeNothing", samePreferences},
		{"OnlyPreferencesThatWereReadAreReplaced", onlyWhatWasRead},
		{"ChangesAreNumbered", changesAreNumbered},
		{"OptOutsCancelWhatWaits", optOutsCancel},
		{"ClicksAtOnceLoseNothing", clicksAtOnce},
	} {
		cases = append(cases, Case{Name: c.name, Run: func(tb testing.TB, s Subject) {
			tb.Helper()
			c.run(&probe{TB: tb, Subject: s, by: s.Store})
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

// probe runs a case against a subject.
type probe struct {
	testing.TB
	Subject
	by           dispatch.Store // the store of the worker that makes the rounds
	made, rounds int            // notifications and rounds, for their ids
	held         []heldWakeup
	granted      []*dispatch.Grant
}

// notification makes a notification with defaults for what the case does not care about.
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

// accept makes a notification and has it accepted.
func (p *probe) accept(change func(*notification.Notification)) *notification.Notification {
	p.Helper()
	n := p.notification(change)
	accepted, err := p.Accept(p.Context(), []*notification.Notification{n})
	if err != nil || accepted[0].Known || n.CreatedAt.IsZero() {
		p.Fatalf("accept %s: %+v, %v", n.ID, accepted, err)
	}
	return n
}

// heldWakeup is a wake-up that the probe holds until its moment.
type heldWakeup struct {
	dispatch.Wakeup

	partition int
	at        time.Time
}

// take makes a take request.
func (p *probe) take(r dispatch.TakeRequest) dispatch.TakeResult {
	p.Helper()
	result, err := p.by.Take(p.Context(), r)
	if err != nil {
		p.Fatalf("take from partition %d: %v", r.Partition, err)
	}
	return result
}

// round makes one take request for a partition, with capacity for one delivery: it serves the held wake-ups that are
// due and pulls others. It keeps the grants that it could claim.
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
	result := p.take(r)
	served := make([]dispatch.ServedWakeup, 0, len(result.Results)+len(result.Served))
	for i, of := range result.Results {
		served = append(served, dispatch.ServedWakeup{Wakeup: r.Wakeups[i], WakeupResult: of})
	}
	for _, s := range append(served, result.Served...) {
		if s.Held {
			w := dispatch.Wakeup{UserID: s.UserID, Generation: s.Generation, Categories: s.WakeupResult.Categories}
			p.held = append(p.held, heldWakeup{Wakeup: w, partition: partition, at: time.Now().Add(s.After)})
		}
		for _, g := range s.Grants {
			ok, err := p.by.Claim(p.Context(), g)
			if err != nil {
				p.Fatalf("claim %s: %v", g.Notification.ID, err)
			}
			if ok {
				p.granted = append(p.granted, g)
			}
		}
	}
	for _, w := range result.Pulled {
		p.held = append(p.held, heldWakeup{Wakeup: w, partition: partition, at: time.Now()})
	}
}

// look makes the rounds that grant what may go now: the first pulls wake-ups, the second serves them.
func (p *probe) look() {
	p.Helper()
	for partition := range Partitions {
		p.round(partition)
		p.round(partition)
	}
}

// grant makes rounds until something is granted, and returns the grant. The case fails when that takes too long.
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

// crash is grant for a worker that then crashes.
func (p *probe) crash() *dispatch.Grant {
	p.Helper()
	p.by = p.Crashing
	defer func() { p.by = p.Store }()
	return p.grant()
}

// wantNoGrant makes rounds, and wants nothing to be granted.
func (p *probe) wantNoGrant(fault string) {
	p.Helper()
	p.look()
	if len(p.granted) > 0 {
		p.Fatalf("%s: %+v", fault, p.granted[0])
	}
}

// settle settles a grant.
func (p *probe) settle(g *dispatch.Grant, o dispatch.Outcome) dispatch.Settlement {
	p.Helper()
	s, err := p.Settle(p.Context(), g, o)
	if err != nil {
		p.Fatalf("settle %s: %v", g.Notification.ID, err)
	}
	return s
}

// lookUp returns a notification.
func (p *probe) lookUp(id string) *notification.View {
	p.Helper()
	v, err := p.View(p.Context(), id)
	if err != nil {
		p.Fatalf("view %s: %v", id, err)
	}
	return v
}

// want checks what a notification has become.
func (p *probe) want(id string, status notification.Status, attempts int, reason string) *notification.View {
	p.Helper()
	v := p.lookUp(id)
	if v.Status != status || v.Attempts != attempts || reason != "" && v.Reason != reason {
		p.Fatalf("%s is %s after %d attempts (%s), want %s after %d (%s)", id, v.Status, v.Attempts, v.Reason, status,
			attempts, reason)
	}
	return v
}

// repairUntil repairs until a condition holds.
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

// becomes gives a condition for repairUntil: a notification has a status.
func (p *probe) becomes(id string, status notification.Status) func() bool {
	return func() bool {
		v, err := p.View(p.Context(), id)
		return err == nil && v.Status == status
	}
}
