package agenda_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
)

// model is what the agendas of one partition are, in plain Go: the specification that Lua is held against. Moments are
// µs since the epoch. The wake-ups are not in it: of them only the invariant is asked.
type model struct {
	now      int64
	settings map[string]agenda.Settings // by category
	paused   map[string]int64           // until when, by category
	last     int64                      // the highest arrival
	notes    map[string]*note
	order    []*note
	users    map[string]*modelAgenda
	logs     map[string][]admission // by "category:user"; of the cap by user
	depths   map[string]depth       // of each log
	newest   map[string]int64       // arrival of the newest with a collapse key
	keyed    map[string]*note       // what waits with a collapse key
	counts   map[string]int64       // the totals, by the names in Redis
	told     map[string]int         // deferrals by category
}

// note is a notification. Its state is a letter of agenda.lua; 0 when it was forgotten.
type note struct {
	id, user, category, collapse, channel                  string
	priority                                               int
	accepted, notBefore, failedUntil, expires, due, leased int64
	arrival, place                                         int64
	admitted                                               int64
	state                                                  byte
	bypasses, exempt, held                                 bool
	generation, returned, failures, crashes                int
	deferrals                                              int
	// the generation whose lease ended, while it may still be settled
	lapsed int
	// when its latest retry was due
	retried int64
	// the named caps that count its latest grant
	caps []string
}

// modelAgenda is all that waits of one user.
type modelAgenda struct {
	backlogs map[string]*modelBacklog
	later    []*note
	// excused is until when nothing is asked of the wake-up: what was given back said so.
	excused int64
}

// modelBacklog holds what waits in one category, in order. It is blocked until a moment, or 0.
type modelBacklog struct {
	category string
	notes    []*note
	blocked  int64
	// blockedBy is the number of what it is blocked by, as next gives it.
	blockedBy int
	capped    bool
	// of the take at work: when the first may go, and the number of the rule behind it; decided reports whether they
	// are known, looked whether they were of any first. bound is since when the limits let it go; 0 for a bypass.
	at, bound int64
	rule      int
	decided   bool
	looked    bool
	// granted is the latest moment that the take at work granted in it.
	granted int64
	// since when what is in it may go, as far as the end of a block or of a pause says so; paused while it is.
	ready  int64
	paused bool
}

// admission is one in a log. It is gone once the log has forgotten it: no rule can see it any more, and none tells by
// it since when one may go.
type admission struct {
	at    int64
	token string
	gone  bool
}

// depth is what a log has to keep: so many of the newest, and all that are younger.
type depth struct {
	newest int
	per    time.Duration
}

func newModel(now int64) *model {
	return &model{
		now: now, settings: map[string]agenda.Settings{}, paused: map[string]int64{}, notes: map[string]*note{},
		users: map[string]*modelAgenda{}, logs: map[string][]admission{}, newest: map[string]int64{},
		keyed: map[string]*note{}, depths: map[string]depth{},
		counts: map[string]int64{}, told: map[string]int{},
	}
}

func (m *model) agenda(user string) *modelAgenda {
	if m.users[user] == nil {
		m.users[user] = &modelAgenda{backlogs: map[string]*modelBacklog{}}
	}
	return m.users[user]
}

// tokenOf names an admission as the scripts do.
func (n *note) token() string { return n.id + "#" + strconv.Itoa(n.generation) }

func (n *note) collapseName() string { return n.category + "\n" + n.user + "\n" + n.collapse }

// waitsSince is since when max_defer counts.
func (n *note) waitsSince() int64 { return max(n.accepted, n.notBefore, n.failedUntil) }

func (n *note) expired(at int64) bool { return n.expires != 0 && n.expires <= at }

func inOrder(a, b *note) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.place, b.place), cmp.Compare(a.id, b.id))
}

// accept takes an entry in, and gives the moment of its acceptance, negative when it is known.
func (m *model) accept(e agenda.Entry) int64 {
	if n := m.notes[e.ID]; n != nil {
		return -n.accepted
	}
	n := &note{
		id: e.ID, user: e.UserID, category: e.Category, collapse: e.CollapseKey, channel: channelIn(e.Payload),
		priority: int(e.Priority), state: 'q', accepted: m.now - e.Age.Microseconds(),
		arrival: cmp.Or(e.Arrival, m.last+1),
	}
	m.last = max(m.last, n.arrival)
	n.place = n.arrival
	n.bypasses = notification.Priority(n.priority).AtLeast(m.settings[n.category].BypassFrom)
	if !e.SendAt.IsZero() {
		n.notBefore = e.SendAt.UnixMicro()
	}
	if !e.ExpiresAt.IsZero() {
		n.expires = e.ExpiresAt.UnixMicro()
	}
	m.notes[n.id] = n
	m.order = append(m.order, n)
	m.counts["accepted"]++
	if n.collapse != "" {
		if m.superseded(n) {
			m.finish(n, 'R')
			return n.accepted
		}
		m.replaceEarlier(n)
	}
	if n.notBefore > m.now {
		n.state, n.due = 't', n.notBefore
		m.agenda(n.user).later = append(m.agenda(n.user).later, n)
	} else {
		b := m.agenda(n.user).backlogs[n.category]
		m.enter(n, n.bypasses || b != nil && b.blocked > 0 && (b.blockedBy < 0 && m.isExempt(n) &&
			len(m.settings[n.category].Plan.Closed) > 0 || m.isAhead(n, b)))
	}
	return n.accepted
}

// superseded reports whether a newer one with the same collapse key has been accepted.
func (m *model) superseded(n *note) bool {
	if n.collapse == "" {
		return false
	}
	if m.newest[n.collapseName()] > n.arrival {
		return true
	}
	waiting := m.keyed[n.collapseName()]
	return waiting != nil && waiting != n && waiting.arrival > n.arrival
}

func (m *model) replaceEarlier(n *note) {
	earlier := m.keyed[n.collapseName()]
	m.newest[n.collapseName()] = n.arrival
	if earlier != nil {
		scheduled := earlier.state == 't'
		m.leave(earlier)
		m.finish(earlier, 'R')
		if !scheduled {
			n.place = earlier.place
		}
	}
	m.keyed[n.collapseName()] = n
}

// enter puts a notification into its backlog. In a blocked one it is deferred, unless it passes.
func (m *model) enter(n *note, passes bool) {
	a := m.agenda(n.user)
	b := a.backlogs[n.category]
	if b == nil {
		b = &modelBacklog{category: n.category}
		a.backlogs[n.category] = b
	}
	n.state, n.exempt = 'q', n.deferrals == 0 && (passes || b.blocked == 0)
	i, _ := slices.BinarySearchFunc(b.notes, n, inOrder)
	b.notes = slices.Insert(b.notes, i, n)
	if !n.exempt {
		m.deferOne(n)
	}
	if n.collapse != "" && m.keyed[n.collapseName()] == nil {
		m.keyed[n.collapseName()] = n
	}
}

// deferOne counts a notification as deferred, once.
func (m *model) deferOne(n *note) {
	n.exempt = false
	if n.deferrals == 0 {
		n.deferrals = 1
		m.counts["deferrals"]++
		m.told[n.category]++
	}
}

// leave takes a notification out of where it waits.
func (m *model) leave(n *note) bool {
	a := m.agenda(n.user)
	switch n.state {
	case 'q':
		b := a.backlogs[n.category]
		b.notes = slices.DeleteFunc(b.notes, func(o *note) bool { return o == n })
	case 't', 'r':
		a.later = slices.DeleteFunc(a.later, func(o *note) bool { return o == n })
		n.held = false
	default:
		return false
	}
	if n.collapse != "" && m.keyed[n.collapseName()] == n {
		delete(m.keyed, n.collapseName())
	}
	return true
}

func (m *model) finish(n *note, state byte) {
	n.state = state
	m.counts[string(state)]++
}

func (m *model) cancel(id string) (waited bool) {
	n := m.notes[id]
	if waited = m.leave(n); waited {
		m.finish(n, 'C')
	}
	return waited
}

// sweep ends leases and what expired while it waited.
func (m *model) sweep() {
	var ended []*note
	for _, n := range m.order {
		if n.state == 's' && n.leased <= m.now {
			ended = append(ended, n)
		}
	}
	slices.SortFunc(ended, func(a, b *note) int {
		return cmp.Or(cmp.Compare(a.leased, b.leased), cmp.Compare(a.id, b.id))
	})
	for _, n := range ended {
		n.crashes++
		switch {
		case n.crashes >= 3:
			m.finish(n, 'F')
		case m.superseded(n):
			m.finish(n, 'R')
		default:
			n.lapsed = n.generation
			m.enter(n, n.bypasses)
		}
	}
	for _, n := range m.order {
		if n.expired(m.now) && m.leave(n) {
			m.finish(n, 'E')
		}
	}
}

// waits reports whether anything of a user does.
func (m *model) waits(user string) bool {
	a := m.agenda(user)
	return len(a.backlogs) > 0 || len(a.later) > 0
}

// categories are those whose settings a worker needs: of the backlogs, and of what is due first.
func (m *model) categories(user string) []string {
	a := m.agenda(user)
	names := slices.Collect(maps.Keys(a.backlogs))
	if len(a.later) > 0 {
		names = append(names, slices.MinFunc(a.later, func(x, y *note) int {
			return cmp.Or(cmp.Compare(x.due, y.due), cmp.Compare(x.id, y.id))
		}).category)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tidy ends a script: backlogs that hold nothing are forgotten, and one is blocked only while something in it is
// deferred.
func (m *model) tidy() {
	for _, a := range m.users {
		for _, b := range a.backlogs {
			if !slices.ContainsFunc(b.notes, func(n *note) bool { return !n.exempt }) {
				m.unblock(b)
			}
		}
		maps.DeleteFunc(a.backlogs, func(_ string, b *modelBacklog) bool { return len(b.notes) == 0 })
	}
}

// earliest is the first moment at which something of a user may go; false when nothing will.
func (m *model) earliest(user string) (at int64, found bool) {
	consider := func(n *note, moment int64) int64 {
		if moment = max(moment, m.now); !n.expired(moment) && (!found || moment < at) {
			at, found = moment, true
		}
		return moment
	}
	a := m.agenda(user)
	for category, b := range a.backlogs {
		before := m.paused[category] // nothing goes before what stands before it, though a cap may not count it
		for i, n := range b.notes {
			as := *n
			if i > 0 {
				as.expires = 0 // only the first goes before its user begins again
			}
			slot, _ := m.next(&as, m.now, m.isExempt(n) || m.settings[category].Drops)
			if notification.Priority(n.priority).AtLeast(m.settings[category].BypassFrom) {
				slot = m.now
			}
			before = consider(n, max(slot, before))
		}
	}
	for _, n := range a.later {
		consider(n, n.due)
	}
	if found {
		at = max(at, a.excused)
	}
	return at, found
}

// gauges are the counts of what is now, by the names in Redis; users and flight are those of sets.
func (m *model) gauges() map[string]int64 {
	g := map[string]int64{
		"waiting": 0, "deferred": 0, "capped": 0, "quiet": 0, "scheduled": 0, "retrying": 0, "held": 0,
		"users": 0, "flight": 0,
	}
	for _, a := range m.users {
		deferred := g["deferred"]
		for _, b := range a.backlogs {
			for _, n := range b.notes {
				g["waiting"]++
				if b.blocked > 0 && !n.exempt {
					g["deferred"]++
					if b.capped {
						g["capped"]++
					}
					if b.blockedBy < 0 {
						g["quiet"]++
					}
				}
			}
		}
		if g["deferred"] > deferred {
			g["users"]++
		}
	}
	for _, n := range m.order {
		switch n.state {
		case 's':
			g["flight"]++
		case 't':
			g["scheduled"]++
		case 'r':
			g["retrying"]++
		}
		if n.held {
			g["held"]++
		}
	}
	return g
}

func micros(d time.Duration) int64 { return d.Microseconds() }
