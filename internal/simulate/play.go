// Package simulate plays recorded arrivals under a policy: what would have gone when, and what would have ended. It
// plays the agenda's own specification, package player, on a clock of its own.
//
// A worker comes at the exact moment at which something may go, and a delivery takes no time. What failed when it was
// recorded fails; all else is delivered.
package simulate

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Simulation plays arrivals under one policy. Memory is bounded by the users for whom something waits or counts.
type Simulation struct {
	// Ended is told of each notification that has ended, and when. Defaults to nothing.
	Ended func(n *player.Note, at time.Time)

	policy  *policy.Policy
	own     *preferences.Memory // a user for each zone, whose id is the zone
	rules   *effective.Policy
	known   map[settingsOf]*player.Settings
	now     throttle.Micros
	last    int64
	users   map[string]*user
	next    moments
	unswept int // arrivals until the next look for users who are idle
	tally   *tally
}

// settingsOf names settings: they may change each hour, as closed hours come nearer.
type settingsOf struct {
	zone, category string
	hour           int64
}

// user is one for whom something waits or counts.
type user struct {
	id, zone string
	agenda   *player.Agenda
	waiting  int
	// due is when the worker has to come; never for not at all.
	due   throttle.Micros
	index int // in the order of moments; -1 for none
	// expiring are those that wait and expire, in that order, and some that have gone.
	expiring []*player.Note
	failing  map[string]bool
}

const never = throttle.Micros(math.MaxInt64)

// New makes a Simulation of a policy.
func New(p *policy.Policy) *Simulation {
	s := &Simulation{
		Ended: func(*player.Note, time.Time) {}, policy: p, own: preferences.NewMemory(),
		rules: effective.New(func() *policy.Policy { return p }), known: map[settingsOf]*player.Settings{},
		users: map[string]*user{}, tally: newTally(),
	}
	s.rules.Own = s.own
	s.rules.Now = func() time.Time { return s.now.Time() }
	return s
}

// Categories are those that the policy names.
func (s *Simulation) Categories() []string { return s.rules.CategoryNames() }

// settings are those of a category at the present moment.
func (s *Simulation) settings(zone, category string) *player.Settings {
	name := settingsOf{zone, category, int64(s.now) / time.Hour.Microseconds()}
	found := s.known[name]
	if found == nil {
		if zone != "" {
			_ = s.own.Set(zone, &notification.Preferences{TimeZone: zone}) // it was checked
		}
		settings := s.rules.Settings(zone, category)
		if len(s.known) > 10_000 {
			clear(s.known)
		}
		found = &settings
		s.known[name] = found
	}
	return found
}

// Arrive plays until an arrival comes, and takes it in. Arrivals come in order, and [Arrival.Check] has completed them.
func (s *Simulation) Arrive(a *Arrival) {
	at := throttle.MicrosOf(a.At)
	s.playUntil(at)
	s.now = at
	s.forget()
	u := s.users[a.UserID]
	if u == nil {
		u = s.newUser(a.UserID)
	}
	if u.zone != a.Zone {
		u.zone, u.due = a.Zone, at // what waits may go sooner there
	}
	s.last++
	n := a.note(s.last)
	if a.Outcome == Failed {
		if u.failing == nil {
			u.failing = map[string]bool{}
		}
		u.failing[n.ID] = true
	}
	s.tally.arrived(a.Category, at)
	u.waiting++
	u.agenda.Accept(at, n)
	switch {
	case n.CollapseKey != "": // what came first may be replaced
		u.due = at
	case n.Status == notification.StatusScheduled:
		u.due = min(u.due, n.Due)
	case !u.agenda.Holds(n):
		u.due = at
	}
	s.schedule(u)
	s.playUntil(at)
	if n.Expires > 0 && waits(n) {
		u.expiresLater(n)
		s.schedule(u)
		s.playUntil(at)
	}
}

// note is the notification that comes, by the number of its arrival.
func (a *Arrival) note(arrival int64) *player.Note {
	n := &player.Note{
		ID: strconv.FormatInt(arrival, 10), Category: a.Category, Channel: a.Channel, CollapseKey: a.CollapseKey,
		Priority: a.priority, Accepted: throttle.MicrosOf(a.At), Arrival: arrival, Group: a.Channel + " " + a.GroupKey,
	}
	if !a.SendAt.IsZero() {
		n.NotBefore = throttle.MicrosOf(a.SendAt)
	}
	if !a.ExpiresAt.IsZero() {
		n.Expires = throttle.MicrosOf(a.ExpiresAt)
	}
	return n
}

// waits reports whether a notification has not ended.
func waits(n *player.Note) bool {
	return n.Status == notification.StatusQueued || n.Status == notification.StatusScheduled
}

// refused is how one ends that an overflow ladder does not let in.
const refused notification.Status = "refused"

func (s *Simulation) newUser(id string) *user {
	u := &user{id: id, due: never, index: -1}
	ended := func(n *player.Note) {
		u.waiting--
		delete(u.failing, n.ID)
		s.tally.ended(u.id, n)
		s.Ended(n, s.now.Time())
	}
	u.agenda = player.New(player.Config{
		User: id, Last: &s.last, InOrder: true,
		Settings: func(category string) *player.Settings { return s.settings(u.zone, category) },
		Deferred: func(n *player.Note) { s.tally.deferred(u.id, n.Category) },
		Ended:    ended,
		Refused: func(n *player.Note) {
			n.Status = refused
			ended(n)
		},
	})
	s.users[id] = u
	return u
}

// playUntil plays all that happens until a moment, this one included.
func (s *Simulation) playUntil(until throttle.Micros) {
	for len(s.next) > 0 && s.next[0].moment() <= until {
		u := s.next[0]
		s.now = max(s.now, u.moment())
		if u.expires() <= s.now {
			s.expire(u)
		}
		if u.due <= s.now {
			s.serve(u)
		}
		if u.waiting == 0 {
			u.expiring = nil
		}
		s.schedule(u)
	}
}

// grantsAtOnce is how many one step grants.
const grantsAtOnce = 100

// serve has the worker come.
func (s *Simulation) serve(u *user) {
	u.due = never
	for more := true; more; {
		taken := u.agenda.Take(s.now, nil, grantsAtOnce)
		for _, g := range taken.Granted {
			s.tally.admitted(g.Note)
			outcome := dispatch.Outcome{Disposition: dispatch.Delivered, Reason: string(notification.StatusDelivered)}
			if u.failing[g.ID] {
				outcome = dispatch.Outcome{Disposition: dispatch.Failed, Reason: "recorded"}
			}
			u.agenda.Settle(s.now, g.Note, g.Generation, outcome)
		}
		if more = taken.More; !more && taken.Next > 0 {
			u.due = taken.Next
		}
	}
}

// expire ends what has expired, and has the worker look at the rest.
func (s *Simulation) expire(u *user) {
	for u.expires() <= s.now {
		if u.agenda.Expire(s.now, u.expiring[0]) {
			u.due = s.now
		}
		u.expiring = u.expiring[1:]
	}
}

// expires is when the next of those that wait expires, or never.
func (u *user) expires() throttle.Micros {
	if len(u.expiring) == 0 {
		return never
	}
	return u.expiring[0].Expires
}

// expiresLater notes one that expires while it waits.
func (u *user) expiresLater(n *player.Note) {
	if len(u.expiring) > 2*u.waiting+64 {
		u.expiring = slices.DeleteFunc(u.expiring, func(n *player.Note) bool { return !waits(n) })
	}
	i, _ := slices.BinarySearchFunc(u.expiring, n, func(x, y *player.Note) int {
		return cmp.Or(cmp.Compare(x.Expires, y.Expires), cmp.Compare(x.Arrival, y.Arrival))
	})
	u.expiring = slices.Insert(u.expiring, i, n)
}

// forgetAfter is after how many arrivals users are looked for of whom nothing counts any more, at least.
const forgetAfter = 10_000

// forget forgets the users for whom nothing waits or counts, whenever as many may have come as were left the last time.
func (s *Simulation) forget() {
	if s.unswept--; s.unswept > 0 {
		return
	}
	for id, u := range s.users {
		if u.index < 0 && u.agenda.Idle(s.now) {
			delete(s.users, id)
		}
	}
	s.unswept = max(forgetAfter, len(s.users))
}

// Finish plays until nothing waits any more, and reports.
func (s *Simulation) Finish() *Report {
	s.playUntil(never - 1)
	return s.tally.report(s.policy.Version())
}

// moment is when something happens next.
func (u *user) moment() throttle.Micros { return min(u.due, u.expires()) }

// schedule puts a user into the order of moments.
func (s *Simulation) schedule(u *user) {
	switch {
	case u.moment() == never && u.index >= 0:
		heap.Remove(&s.next, u.index)
	case u.moment() == never:
	case u.index < 0:
		heap.Push(&s.next, u)
	default:
		heap.Fix(&s.next, u.index)
	}
}

// moments are users in the order of what happens next. It implements [heap.Interface].
type moments []*user

// Len implements heap.Interface.
func (m moments) Len() int { return len(m) }

// Less implements heap.Interface.
func (m moments) Less(i, j int) bool { return m[i].moment() < m[j].moment() }

// Swap implements heap.Interface.
func (m moments) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	m[i].index, m[j].index = i, j
}

// Push implements heap.Interface.
func (m *moments) Push(x any) {
	u := x.(*user) //nolint:errcheck,forcetypeassert // nothing else is pushed
	u.index = len(*m)
	*m = append(*m, u)
}

// Pop implements heap.Interface.
func (m *moments) Pop() any {
	last := len(*m) - 1
	u := (*m)[last]
	(*m)[last], u.index = nil, -1
	*m = slices.Delete(*m, last, last+1)
	return u
}

// Compare plays arrivals under a policy and, unless it is nil, under another one.
func Compare(arrivals func(categories []string, do func(*Arrival) error) error, under, against *policy.Policy,
) (*Report, error) {
	played := []*Simulation{New(under)}
	if against != nil {
		played = append(played, New(against))
	}
	err := arrivals(played[0].Categories(), func(a *Arrival) error {
		for _, s := range played {
			if _, known := s.policy.Categories[a.Category]; !known {
				return fmt.Errorf("category: the policy to compare with does not name %s", nearest.Quote(a.Category))
			}
			s.Arrive(a)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if played[0].last == 0 {
		return nil, errors.New("there are no arrivals to play")
	}
	report := played[0].Finish()
	if against != nil {
		report.Against = played[1].Finish()
	}
	return report, nil
}
