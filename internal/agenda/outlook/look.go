package outlook

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/agenda/reply"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// firstLook is how many of each backlog are read at first, and of what is later; readBatch how many at a time after
	// that, and maxRead how many in all.
	firstLook = 100
	readBatch = 500
	maxRead   = 2500
	// categoriesRead is of how many categories one script reads the backlogs at most.
	categoriesRead = 64
	// band is how far apart the places of two priorities are, as in agenda.lua.
	band = 1 << 51
)

// never is later than anything.
const never = throttle.Micros(math.MaxInt64)

// look is what was read of a user, to be played ahead.
type look struct {
	agendas *Agendas
	ctx     context.Context //nolint:containedctx // that of the call that looks and plays
	userID  string
	now     throttle.Micros
	names   []string // of the categories that were read
	*player.Ahead
	settings map[string]*player.Settings
	held     map[string]*player.Settings // of paused categories, as they are played
	notes    map[string]*player.Note     // by id
	known    []known                     // of each that is asked about
	others   map[string]int              // how many wait in each other category
	asked    []*question
	read     int
	// partly says that more categories share caps than are read: nothing goes before the moment that a play finds.
	partly   bool
	channels bool
	paused   agenda.Paused
	// standIns is how many may stand in for what was not read on; 0: it is read.
	standIns int
	left     map[string]*rest // of each backlog that was not read to its end
	later    rest
}

// rest is what was not read of a backlog, or of what is later.
type rest struct {
	count int
	from  int64 // the last place or moment that was read
	skip  int   // how many of those there were read
	last  *player.Note
}

// subject is a notification that is asked about.
type subject struct{ id, category, collapse string }

// known is what Redis knows of a subject.
type known struct {
	state                 string // a letter, see agenda.lua; "" when it is not known
	waits, deferred       bool   // in its backlog
	before                int    // how many stand before it there
	line, reason          string
	admitted              throttle.Micros
	holder                []any // itself, or the one that has its collapse key
	holderArrival, newest int64
}

// gone reports whether it neither waits nor is yet to come.
func (k *known) gone() bool { return k.state != "" && len(k.holder) == 0 }

// look reads what waits for a user, as far as it decides when the subjects go, and goes in some further categories.
func (a *Agendas) look(ctx context.Context, userID string, subjects []subject, names []string,
) (*look, error) {
	for _, s := range subjects {
		if !slices.Contains(names, s.category) {
			names = append(names, s.category)
		}
	}
	for {
		l, err := a.lookAt(ctx, userID, subjects, names)
		if err != nil {
			return nil, fmt.Errorf("read when notifications go: %w", err)
		}
		more, room := l.connected(), max(0, categoriesRead-len(names))
		if l.partly = len(more) > 0; !l.partly || room == 0 {
			return l, nil
		}
		names = slices.Concat(names, more[:min(len(more), room)])
	}
}

// lookAt runs the script of that name.
func (a *Agendas) lookAt(ctx context.Context, userID string, subjects []subject, names []string,
) (*look, error) {
	l := &look{
		agendas: a, ctx: ctx, userID: userID, names: names,
		settings: map[string]*player.Settings{}, held: map[string]*player.Settings{},
		notes: map[string]*player.Note{}, others: map[string]int{}, left: map[string]*rest{},
		paused: a.Config().Paused(),
	}
	l.channels = len(l.paused.Channels) > 0
	var plans []any
	for _, name := range names {
		settings := l.settingsOf(name)
		plans = settings.Plan.Args(append(plans, name))
		l.channels = l.channels || settings.Plan.ByChannel() || settings.Digest != nil
	}
	args := append([]any{userID, agenda.Flag(l.channels), strconv.Itoa(firstLook), strconv.Itoa(len(names))}, plans...)
	for _, s := range subjects {
		args = append(args, s.id, s.category, s.collapse)
	}
	answer, err := a.Read(ctx, "look", a.PartitionOf(userID), args)
	if err != nil {
		return nil, err
	}
	r := &reply.Reader{Fields: answer}
	l.now = throttle.Micros(r.Number(0))
	l.Ahead = player.NewAhead(l.now, player.Config{User: userID, Settings: l.played}, l)
	l.fill(r, subjects)
	l.Share(l.components())
	return l, r.Fault
}

// settingsOf are the settings of a category.
func (l *look) settingsOf(category string) *player.Settings {
	if l.settings[category] == nil {
		s := l.agendas.SettingsOf(l.userID, category)
		l.settings[category] = &s
	}
	return l.settings[category]
}

// played are the settings by which a category is played. Of a paused one nobody knows when it goes on.
func (l *look) played(category string) *player.Settings {
	s := l.settingsOf(category)
	if s.PausedBy() == "" {
		return s
	}
	if l.held[category] == nil {
		held := *s
		held.Removed = true
		l.held[category] = &held
	}
	return l.held[category]
}

// fill takes in a reply of the script.
func (l *look) fill(r *reply.Reader, subjects []subject) {
	categories, others := r.List(1), r.List(5)
	for i, name := range l.names {
		one := categories.List(i)
		first, past := one.List(1), one.List(2)
		numbers := &reply.Cursor{Fields: past.Fields}
		l.Agenda().Windows().Read(name, l.settingsOf(name).Plan, numbers)
		numbers.End()
		past.Fault = numbers.Fault
		l.left[name] = &rest{count: int(one.Number(0))}
		l.putBacklog(name, first)
		l.Agenda().Block(name, throttle.Micros(one.Number(3)), throttle.CauseOf(one.Number(4)), int(one.Number(5)))
		if one.Number(6) == 1 {
			l.Agenda().Bundle(name)
		}
		for _, list := range []*reply.Reader{first, past, one} {
			r.Adopt(list)
		}
	}
	later := r.List(2)
	l.later.count = int(r.Number(3))
	l.putLater(later)
	for i := 0; i+1 < len(others.Fields); i += 2 {
		l.others[others.Text(i)] = int(others.Number(i + 1))
	}
	if wakeup := throttle.Micros(r.Number(6)); !l.agendas.Config().Changed {
		l.StartAt(wakeup)
	}
	notifications := r.List(4)
	for i, s := range subjects {
		one := notifications.List(i)
		k := known{
			state: one.Text(0), waits: one.Number(1) == 1, before: int(one.Number(2)), deferred: one.Number(3) == 1,
			line: one.Text(4), admitted: throttle.Micros(one.Number(5)), reason: one.Text(6),
			holder:        one.List(7).Fields,
			holderArrival: one.Number(8), newest: one.Number(9),
		}
		l.known = append(l.known, k)
		l.putHolder(s, &k, r)
		r.Adopt(one)
	}
	for _, list := range []*reply.Reader{categories, others, later, notifications} {
		r.Adopt(list)
	}
}

// The numbers of fields that put_standing and put_due put.
const standingFields, dueFields = 5, 8

// noteAt reads one that stands in a backlog, or is due later.
func (l *look) noteAt(r *reply.Reader, i int, category string, later bool) (n *player.Note, place int64) {
	place = r.Number(i + 1)
	n = &player.Note{
		ID: r.Text(i), Category: category, Priority: notification.Priority((place + band) / band),
		Arrival:  (place + band) % band,
		Accepted: throttle.Micros(r.Number(i + 2)), Expires: throttle.Micros(r.Number(i + 3)),
	}
	n.Channel, n.Group, _ = strings.Cut(r.Text(i+4), " ")
	if later {
		n.Category, n.Due, n.Status = r.Text(i+5), throttle.Micros(r.Number(i+6)), notification.StatusRetrying
		if r.Text(i+7) == keyspace.States.Scheduled {
			n.Status = notification.StatusScheduled
		}
		n.Held = r.Text(i+7) == keyspace.Fields.Held
	}
	return n, place
}

// put has a notification wait, unless it does.
func (l *look) put(n *player.Note) *player.Note {
	if known := l.notes[n.ID]; known != nil {
		return known
	}
	l.notes[n.ID] = n
	if n.Category != "" && !l.pausedOn(n.Channel) {
		l.Agenda().Restore(n)
		if n.Expires > 0 {
			l.Expires(n)
		}
	}
	return n
}

// pausedOn reports whether a channel is paused. What waits for it is in no play: nobody knows when somebody resumes it.
func (l *look) pausedOn(channel string) bool { return slices.Contains(l.paused.Channels, channel) }

// heldBy is why nobody knows when a notification goes: what operators did. It is empty for any other.
func (l *look) heldBy(n *player.Note) string {
	if reason := l.settingsOf(n.Category).PausedBy(); reason != "" {
		return reason
	}
	if l.pausedOn(n.Channel) || slices.Contains(l.paused.Partitions, l.agendas.PartitionOf(l.userID)) {
		return notification.ReasonPaused
	}
	return ""
}

// putBacklog puts in what was read of a backlog.
func (l *look) putBacklog(category string, r *reply.Reader) {
	left := l.left[category]
	for i := 0; i+standingFields <= len(r.Fields); i += standingFields {
		n, place := l.noteAt(r, i, category, false)
		if left.skip++; place != left.from {
			left.from, left.skip = place, 1
		}
		left.count--
		left.last = l.put(n)
	}
	l.Agenda().Unread(category, max(0, left.count), left.last)
}

// putLater puts in what was read of what is later.
func (l *look) putLater(r *reply.Reader) {
	left := &l.later
	for i := 0; i+dueFields <= len(r.Fields); i += dueFields {
		n, _ := l.noteAt(r, i, "", true)
		if left.skip++; int64(n.Due) != left.from {
			left.from, left.skip = int64(n.Due), 1
		}
		left.count--
		l.put(n)
		if n.Category != "" && !slices.Contains(l.names, n.Category) {
			l.others[n.Category] += 0
		}
	}
	l.Agenda().LaterUnread(max(0, left.count), throttle.Micros(left.from))
}

// putHolder puts in what is known of a subject, or the one that has its collapse key.
func (l *look) putHolder(s subject, k *known, r *reply.Reader) {
	if k.newest > 0 {
		l.Agenda().Remember(s.category, s.collapse, k.newest)
	}
	if len(k.holder) == 0 {
		return
	}
	one := &reply.Reader{Fields: k.holder}
	n, _ := l.noteAt(one, 0, s.category, len(k.holder) == dueFields)
	if l.notes[n.ID] == nil && n.Due == 0 { // it is one of those that were not read
		l.left[s.category].count--
		l.Agenda().Unread(s.category, max(0, l.left[s.category].count), l.left[s.category].last)
	}
	if n = l.put(n); k.state == "" {
		n.Arrival = k.holderArrival
		l.Agenda().Hold(n, s.collapse)
	}
	r.Adopt(one)
}

// connected are those of other categories that share a cap with some that were read, or with others that do.
func (l *look) connected() (found []string) {
	for i := 0; i < len(l.names)+len(found); i++ {
		plan := l.settingsOf(slices.Concat(l.names, found)[i]).Plan
		for other := range l.others {
			if !slices.Contains(found, other) && !slices.Contains(l.names, other) &&
				plan.SharesCap(l.settingsOf(other).Plan) {
				found = append(found, other)
			}
		}
	}
	slices.Sort(found)
	return found
}

// components are the categories that were read; those that share caps, or do so through others, together.
func (l *look) components() (all [][]string) {
	for _, name := range l.names {
		joined := []string{name}
		all = slices.DeleteFunc(all, func(names []string) bool {
			if !slices.ContainsFunc(names, func(other string) bool {
				return l.settingsOf(name).Plan.SharesCap(l.settingsOf(other).Plan)
			}) {
				return false
			}
			joined = append(joined, names...)
			return true
		})
		all = append(all, joined)
	}
	return all
}

// ReadBacklog implements [player.Source].
func (l *look) ReadBacklog(category string) (bool, error) {
	return l.readOn(l.left[category], func(r *reply.Reader) { l.putBacklog(category, r) }, category)
}

// ReadLater implements [player.Source].
func (l *look) ReadLater() (bool, error) { return l.readOn(&l.later, l.putLater) }

// readOn runs the script of that name. What it does not find has gone meanwhile.
func (l *look) readOn(left *rest, put func(*reply.Reader), backlog ...any) (bool, error) {
	if l.standIns > 0 {
		return len(backlog) == 1 && l.standIn(left), nil
	}
	if l.read >= maxRead {
		return false, nil
	}
	from, most := "-inf", min(readBatch, maxRead-l.read)
	if left.skip > 0 {
		from = strconv.FormatInt(left.from, 10)
	}
	args := append([]any{
		l.userID, agenda.Flag(l.channels), strconv.Itoa(most), strconv.Itoa(left.skip), from,
	}, backlog...)
	answer, err := l.agendas.Read(l.ctx, "readon", l.agendas.PartitionOf(l.userID), args)
	if err != nil {
		return false, fmt.Errorf("read on what waits: %w", err)
	}
	r, fields := &reply.Reader{Fields: answer}, standingFields
	if len(backlog) == 0 {
		fields = dueFields
	}
	put(r)
	found := len(answer) / fields
	if l.read += found; found < most {
		left.count = 0
		put(&reply.Reader{})
	}
	return true, r.Fault
}

// standIn has others stand in for some of a backlog that was not read, such as the last that was.
func (l *look) standIn(left *rest) bool {
	n := min(left.count, readBatch, l.standIns-1)
	for range n {
		like := *left.last
		like.Arrival++
		like.ID, like.Expires, like.Accepted = "", 0, max(like.Accepted, l.now)
		left.last = &like
		l.Agenda().Restore(left.last)
	}
	left.count -= n
	l.standIns -= n
	l.Agenda().Unread(left.last.Category, left.count, left.last)
	return n > 0
}
