package agenda

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// request asks when a notification of a user goes.
type request struct {
	id, category string
	// place is where it would stand, and the others when it would be due and expire (0: never), on which channel it
	// would go, and its collapse key, if it is not known.
	place             int64
	due, expires      throttle.Micros
	channel, collapse string
	// refuses is that of asked.
	refuses func(since, at throttle.Micros) string
}

// found is what the agendas know of a notification, and when it goes.
type found struct {
	asked

	state           string // a letter, see agenda.lua; "" when it is not known
	waits, deferred bool   // in its backlog
	place           int64
	before          int
	line, reason    string
	admitted        throttle.Micros
	channel         string
	// replaces is what it would replace, if it is not known: its id, its place in its backlog (0: it is later), and how
	// many stand before it.
	replaces       string
	replacedPlace  int64
	beforeReplaced int
}

// gone reports whether it neither waits nor is yet to come.
func (f *found) gone() bool { return f.state != "" && !f.waits && f.due == 0 }

// userReading is what is read of a user.
type userReading struct {
	now        throttle.Micros
	names      []string
	categories []categoryReading // of each name
	later      laterReading
	found      []found
	others     map[string]int // how many wait in each other category
}

// categoryReading is what is read of one category.
type categoryReading struct {
	settings Settings
	counts   [4]int // by priority
	first    []standing
	past     *throttle.Past
	caps     *throttle.CapPasts
}

// laterReading is what is read of what is due later.
type laterReading struct {
	ones  []laterStanding
	count int // how many are later in all
}

// laterStanding is a notification that is due later.
type laterStanding struct {
	standing

	id, category string
	due          throttle.Micros
}

// whenAll reports when notifications of a user go, all at once: each has those before it go first. What it says is
// exact as long as nothing more urgent comes, the settings stay, and what goes is delivered. It does not know of others
// that expire, or whose channel is paused: these count as going.
func (a *Agendas) whenAll(ctx context.Context, userID string, requests []request) (throttle.Micros, []found, error) {
	var names []string
	for _, q := range requests {
		if !slices.Contains(names, q.category) {
			names = append(names, q.category)
		}
	}
	for {
		read, err := a.readUser(ctx, userID, names, requests)
		if err != nil {
			return 0, nil, err
		}
		more, room := a.connected(userID, names, read.others), max(0, categoriesRead-len(names))
		if len(more) == 0 || room == 0 {
			p := a.planningOf(userID, read, requests)
			p.unread = more
			if more, err = p.plan(ctx); err != nil || len(more) == 0 || room == 0 {
				return read.now, read.found, err
			}
		}
		names = append(names, more[:min(len(more), room)]...)
	}
}

// categoriesRead is of how many categories one script reads the backlogs at most.
const categoriesRead = 64

// connected are those of other categories that share a cap with some of the named, or with others that do.
func (a *Agendas) connected(userID string, names []string, others map[string]int) []string {
	var found []string
	for i := 0; i < len(names)+len(found); i++ {
		name := slices.Concat(names, found)[i]
		plan := a.cfg.Settings(userID, name).Plan
		for other := range others {
			if !slices.Contains(found, other) && plan.SharesCap(a.cfg.Settings(userID, other).Plan) {
				found = append(found, other)
			}
		}
	}
	slices.Sort(found)
	return found
}

// readUser runs the promise script.
func (a *Agendas) readUser(ctx context.Context, userID string, names []string, requests []request,
) (*userReading, error) {
	read := &userReading{
		names: names, categories: make([]categoryReading, len(names)), found: make([]found, len(requests)),
		others: map[string]int{},
	}
	args, shared := []any{userID, "", strconv.Itoa(len(names))}, false
	for i, name := range names {
		read.categories[i].settings = a.cfg.Settings(userID, name)
		plan := read.categories[i].settings.Plan
		args, shared = plan.Args(append(args, name)), shared || plan.SharesCap(plan)
	}
	args[1] = flag(shared)
	for _, q := range requests {
		args = append(args, q.id, q.category, strconv.FormatInt(q.place, 10), q.collapse,
			strconv.FormatInt(int64(q.due), 10))
	}
	reply, err := a.Run(ctx, a.promise, a.PartitionOf(userID), args)
	if err != nil {
		return nil, err
	}
	r := reader{fields: reply}
	read.read(&r)
	if r.fault != nil {
		return nil, fmt.Errorf("read when notifications go: %w", r.fault)
	}
	return read, nil
}

func (u *userReading) read(r *reader) {
	categories, later, notifications, others := r.list(1), r.list(2), r.list(3), r.list(4)
	u.now, u.later.count = throttle.Micros(r.number(0)), int(r.number(5))
	for i := range u.categories {
		u.categories[i].read(categories.list(i), r)
	}
	u.later.ones = readLater(later)
	for _, one := range u.later.ones {
		if one.category != "" && !slices.Contains(u.names, one.category) {
			u.others[one.category] += 0
		}
	}
	for i := range u.found {
		one := notifications.list(i)
		u.found[i] = found{
			state: one.text(0), waits: one.number(1) == 1,
			asked: asked{due: throttle.Micros(one.number(2)), expires: throttle.Micros(one.number(9))},
			place: one.number(3), before: int(one.number(4)), deferred: one.number(5) == 1, line: one.text(6),
			admitted: throttle.Micros(one.number(7)), reason: one.text(8), channel: one.text(10),
			replaces: one.text(11), replacedPlace: one.number(12), beforeReplaced: int(one.number(13)),
		}
		r.adopt(one)
	}
	for i := 0; i+1 < len(others.fields); i += 2 {
		u.others[others.text(i)] = int(others.number(i + 1))
	}
	for _, list := range []*reader{categories, later, notifications, others} {
		r.adopt(list)
	}
}

func (c *categoryReading) read(r, whole *reader) {
	for i := range c.counts {
		c.counts[i] = int(r.number(i))
	}
	first, past := r.list(4), r.list(5)
	c.first = readStandings(first)
	numbers := &cursor{fields: past.fields}
	c.past, c.caps = c.settings.Plan.ReadPast(numbersOf{numbers})
	numbers.end()
	past.fault = numbers.fault
	for _, list := range []*reader{first, past, r} {
		whole.adopt(list)
	}
}

// numbersOf are the numbers of a flat reply.
type numbersOf struct{ *cursor }

// Number implements [throttle.Numbers].
func (n numbersOf) Number() int64 { return n.number() }

// Count implements [throttle.Numbers].
func (n numbersOf) Count() int { return n.count() }

// readStandings reads places and channels of a backlog.
func readStandings(r *reader) []standing {
	standings := make([]standing, 0, len(r.fields)/2)
	for i := 0; i+1 < len(r.fields); i += 2 {
		standings = append(standings, standing{place: r.number(i), count: 1, channel: r.text(i + 1)})
	}
	return standings
}

// readLater reads what is due later.
func readLater(r *reader) []laterStanding {
	all := make([]laterStanding, 0, len(r.fields)/5)
	for i := 0; i+4 < len(r.fields); i += 5 {
		all = append(all, laterStanding{
			id: r.text(i), category: r.text(i + 1), due: throttle.Micros(r.number(i + 2)),
			standing: standing{place: r.number(i + 3), count: 1, channel: r.text(i + 4)},
		})
	}
	return all
}
