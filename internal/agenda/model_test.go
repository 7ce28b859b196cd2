package agenda_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// model is what the agendas of one partition are by the player, which Lua is held against. Moments are µs since the
// epoch. The wake-ups are not in it: of them only the invariant is asked.
type model struct {
	now      int64
	settings map[string]agenda.Settings // by category
	paused   map[string]int64           // until when, by category
	changed  map[string]int64           // when the settings did, by category
	heeded   map[string]int64           // when a worker first knew of that, by user and category
	last     int64                      // the highest arrival
	notes    map[string]*note
	order    []*note
	users    map[string]*player.Agenda
	counts   map[string]int64 // the totals, by the names in Redis
	told     map[string]int   // deferrals by category
}

// note is a notification of a user.
type note struct {
	*player.Note

	user string
}

// The settings of the stores of a model's world, in µs.
const (
	modelHorizon = 40_000
	modelHold    = 1_500_000
	modelLease   = 15_000_000
)

// letters are the states in Redis.
var letters = map[notification.Status]string{
	notification.StatusDelivered: "D", notification.StatusFailed: "F", notification.StatusExpired: "E",
	notification.StatusCancelled: "C", notification.StatusReplaced: "R",
}

func newModel(now int64) *model {
	return &model{
		now: now, settings: map[string]agenda.Settings{}, paused: map[string]int64{}, changed: map[string]int64{},
		heeded: map[string]int64{},
		notes:  map[string]*note{},
		users:  map[string]*player.Agenda{}, counts: map[string]int64{}, told: map[string]int{},
	}
}

func (m *model) moment() throttle.Micros { return throttle.Micros(m.now) }

func (m *model) agenda(user string) *player.Agenda {
	if m.users[user] == nil {
		m.users[user] = player.New(player.Config{
			User: user, Last: &m.last,
			Settings: func(category string) *player.Settings { s := m.settingsNow(category); return &s },
			Deferred: func(n *player.Note) { m.counts["deferrals"]++; m.told[n.Category]++ },
			Ended: func(n *player.Note) {
				m.counts[letters[n.Status]]++
				if n.Reason == notification.ReasonOverflow {
					m.told[n.Category+" overflow"]++
				}
			},
			Refused: m.refused,
		})
	}
	return m.users[user]
}

// settingsNow returns the settings of a category at this moment.
func (m *model) settingsNow(category string) agenda.Settings {
	s := m.settings[category]
	s.Paused = time.Duration(max(0, m.paused[category]-m.now)) * time.Microsecond
	return s
}

// accept takes entries in, and gives the moments of their acceptance, negative for what is known.
func (m *model) accept(entries []agenda.Entry) []int64 {
	moments, fresh := make([]int64, len(entries)), map[string][]*player.Note{}
	for i, e := range entries {
		if n := m.notes[e.ID]; n != nil {
			moments[i] = -int64(n.Accepted)
			continue
		}
		n := m.note(e)
		moments[i], fresh[n.user] = int64(n.Accepted), append(fresh[n.user], n.Note)
	}
	for user, notes := range fresh {
		m.agenda(user).Accept(m.moment(), notes...)
	}
	return moments
}

// refused forgets what a ladder did not let in.
func (m *model) refused(n *player.Note) {
	m.counts["accepted"]--
	m.told[n.Category+" overflow"]++
	delete(m.notes, n.ID)
	m.order = slices.DeleteFunc(m.order, func(o *note) bool { return o.Note == n })
}

// note makes the notification of an entry.
func (m *model) note(e agenda.Entry) *note {
	n := &note{user: e.UserID, Note: &player.Note{
		ID: e.ID, Category: e.Category, Channel: channelIn(e.Payload), CollapseKey: e.CollapseKey, Priority: e.Priority,
		Accepted: m.moment().Add(-e.Age),
		Arrival:  cmp.Or(e.Arrival, m.last+1),
	}}
	if m.settings[e.Category].Digest != nil {
		n.Group = n.Channel + " " + e.Of.GroupKey
	}
	if !e.SendAt.IsZero() {
		n.NotBefore = throttle.MicrosOf(e.SendAt)
	}
	if !e.ExpiresAt.IsZero() {
		n.Expires = throttle.MicrosOf(e.ExpiresAt)
	}
	m.notes[n.ID] = n
	m.order = append(m.order, n)
	m.counts["accepted"]++
	m.last = max(m.last, n.Arrival)
	return n
}

// channelIn reads the channel out of a payload of programs.
func channelIn(payload string) string {
	channel, _, _ := strings.Cut(strings.TrimPrefix(payload, `{"c":"`), `"`)
	return channel
}

func (m *model) cancel(id string) (waited bool) {
	n := m.notes[id]
	return m.agenda(n.user).Cancel(m.moment(), n.Note)
}

func (m *model) alter(n *note, c agenda.Change) (waited bool) {
	to := player.Changed{Priority: c.Priority}
	if c.NotBefore != nil {
		to.NotBefore = new(throttle.Micros)
		if !c.NotBefore.IsZero() {
			*to.NotBefore = throttle.MicrosOf(*c.NotBefore)
		}
	}
	if !c.ExpiresAt.IsZero() {
		to.Expires = throttle.MicrosOf(c.ExpiresAt)
	}
	return m.agenda(n.user).Change(m.moment(), n.Note, to)
}

// sweep ends leases and what expired while it waited.
func (m *model) sweep() {
	for _, a := range m.users {
		a.Sweep(m.moment())
	}
}

// granting is what a grant says.
type granting struct {
	id                                       string
	at, slot                                 int64
	generation, attempt, failures, deferrals int
	items                                    string // that go with it
}

// taking is the result of one wake-up.
type taking struct {
	grants []granting
	more   bool
	moment int64
}

// take grants what may go now of a user in the categories that the wake-up knows of, up to a limit.
func (m *model) take(user string, known []string, limit int) taking {
	taken := m.agenda(user).Take(m.moment(), slices.Concat([]string{}, known, []string{"none"}), limit)
	t := taking{more: taken.More, moment: int64(taken.Next)}
	for _, g := range taken.Granted {
		m.counts["attempts"]++
		one := granting{
			g.ID, int64(g.Admitted), int64(g.Slot), g.Generation, g.Generation - g.Returned, g.Failures, 0,
			idsOf(g.Note),
		}
		if g.Deferred {
			one.deferrals = 1
		}
		for i, rule := range m.settings[g.Category].Plan.Shadow {
			if g.Shadowed&(1<<i) != 0 {
				m.told[g.Category+" "+rule.String()]++
			}
		}
		t.grants = append(t.grants, one)
	}
	m.checkWaits(user, &t)
	return t
}

// idsOf writes what goes with a notification.
func idsOf(n *player.Note) string {
	var ids []string
	for _, item := range n.Items() {
		ids = append(ids, item.ID)
	}
	return fmt.Sprint(ids, n.Frozen())
}

// checkWaits is the promise that nobody waits for longer than max_defer, and a sweep: whoever stays goes, or is looked
// at, before.
func (m *model) checkWaits(user string, t *taking) {
	if t.more || t.moment == m.now {
		return
	}
	const sweep = time.Second
	for _, b := range m.agenda(user).Backlogs() {
		settings, paused := m.settings[b.Category()], m.paused[b.Category()] > m.now
		heeding := user + " " + b.Category()
		if m.heeded[heeding] < m.changed[b.Category()] {
			m.heeded[heeding] = m.now // a backlog is looked through in the second after that
		}
		for _, n := range b.Notes() {
			blocked, _ := b.Blocked()
			over := max(n.WaitsSince().Add(settings.MaxDefer), throttle.Micros(m.heeded[heeding]))
			if !paused && !n.Priority.AtLeast(settings.BypassFrom) &&
				max(m.moment(), blocked).Sub(over) > sweep {
				panic(fault(n.ID + " waits for longer than max_defer"))
			}
		}
	}
}

// settle writes what became of a grant, and reports whether it was no longer the worker's.
func (m *model) settle(id string, generation int, o dispatch.Outcome) (stale bool) {
	n := m.notes[id]
	returned := n.Returned
	if stale = m.agenda(n.user).Settle(m.moment(), n.Note, generation, o); stale {
		return true
	}
	if n.Returned > returned || n.Status == "" {
		m.counts["attempts"]--
	}
	return false
}

// clear empties the windows of a category and its caps.
func (m *model) clear(b dispatch.Backlog) {
	m.agenda(b.UserID).Windows().Clear(b.Category, m.settings[b.Category].Plan)
}

// earliest is the first moment at which something of a user may go; false when nothing will.
func (m *model) earliest(user string) (at int64, found bool) {
	moment, found := m.agenda(user).Earliest(m.moment())
	return int64(moment), found
}

// backlog is that of a user in a category; nil when nothing waits in it.
func (m *model) backlog(user, category string) *player.Backlog {
	for _, b := range m.agenda(user).Backlogs() {
		if b.Category() == category {
			return b
		}
	}
	return nil
}

// gauges are the counts of what is now, by the names in Redis; users and flight are those of sets.
func (m *model) gauges() map[string]int64 {
	g := map[string]int64{
		"waiting": 0, "deferred": 0, "capped": 0, "quiet": 0, "company": 0, "scheduled": 0, "retrying": 0, "held": 0,
		"joined": 0, "users": 0, "flight": 0,
	}
	for _, a := range m.users {
		deferred := g["deferred"]
		for _, b := range a.Backlogs() {
			m.gauge(g, b)
		}
		if g["deferred"] > deferred {
			g["users"]++
		}
	}
	for _, n := range m.order {
		switch n.Status { //nolint:exhaustive // the others are in backlogs, or have ended
		case notification.StatusSending:
			g["flight"]++
		case notification.StatusScheduled:
			g["scheduled"]++
		case notification.StatusRetrying:
			g["retrying"]++
		}
		if n.Held {
			g["held"]++
		}
		g["joined"] += int64(len(n.Items()))
		g["flight"] -= int64(len(n.Items()))
	}
	return g
}

// gauge adds what waits in a backlog.
func (m *model) gauge(g map[string]int64, b *player.Backlog) {
	_, by := b.Blocked()
	for _, n := range b.Notes() {
		if g["waiting"]++; !b.Deferred(n) {
			continue
		}
		g["deferred"]++
		if b.Capped() {
			g["capped"]++
		}
		switch {
		case by.Closed:
			g["quiet"]++
		case by.Rule == throttle.DigestRule:
			g["company"]++
		}
	}
}

func micros(d time.Duration) int64 { return d.Microseconds() }
