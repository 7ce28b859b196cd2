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
	// place is where it would stand, and the others when it would be due and expire (0: never), if it is not known.
	place        int64
	due, expires throttle.Micros
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
}

// gone tells whether it neither waits nor is yet to come.
func (f *found) gone() bool { return f.state != "" && !f.waits && f.due == 0 }

// userReading is what one run of the promise script reads of a user.
type userReading struct {
	now        throttle.Micros
	categories []categoryReading
	later      []laterReading
	found      []found
	others     []string // categories in which something else waits
}

// categoryReading is what is read of one category.
type categoryReading struct {
	settings        Settings
	counts          [4]int // by priority
	places          []int64
	category, ofCap *throttle.Past
}

// laterReading is a notification that is due later.
type laterReading struct {
	category string
	due      throttle.Micros
	place    int64
}

// whenAll tells when notifications of a user go, all at once: each has those before it go first. What it says is exact
// as long as nothing more urgent comes, the settings stay, and what goes is delivered. When more wait under a cap than
// the script reads places of, or than [maxSteps], it may be too early; and it does not know of others that expire, nor
// which of several categories under a cap quiet hours end first.
func (s *Agendas) whenAll(ctx context.Context, userID string, requests []request) (throttle.Micros, []found, error) {
	var names []string
	together := false
	for _, q := range requests {
		if !slices.Contains(names, q.category) {
			names = append(names, q.category)
			together = together || len(s.cfg.Settings(userID, q.category).Plan.CapRules()) > 0
		}
	}
	for {
		read, err := s.readUser(ctx, userID, names, together, requests)
		if err != nil {
			return 0, nil, err
		}
		capped := slices.DeleteFunc(read.others, func(category string) bool {
			return len(s.cfg.Settings(userID, category).Plan.CapRules()) == 0
		})
		if len(capped) == 0 || len(names)+len(capped) > categoriesRead {
			read.plan(userID, names, requests)
			return read.now, read.found, nil
		}
		names = append(names, capped...)
	}
}

// categoriesRead is of how many categories one script reads the backlogs at most. What waits in more is not seen.
const categoriesRead = 64

// readUser runs the promise script.
func (s *Agendas) readUser(ctx context.Context, userID string, names []string, together bool, requests []request,
) (*userReading, error) {
	args := []any{userID, flag(together), strconv.Itoa(len(names))}
	read := &userReading{categories: make([]categoryReading, len(names))}
	for i, name := range names {
		read.categories[i].settings = s.cfg.Settings(userID, name)
		args = read.categories[i].settings.Plan.Args(append(args, name))
	}
	for _, q := range requests {
		args = append(args, q.id, q.category, strconv.FormatInt(q.place, 10))
	}
	reply, err := s.run(ctx, s.promise, s.PartitionOf(userID), args)
	if err != nil {
		return nil, err
	}
	r := reader{fields: reply}
	read.now = throttle.Micros(r.number(0))
	read.read(&r, len(requests))
	if r.fault != nil {
		return nil, fmt.Errorf("read when notifications go: %w", r.fault)
	}
	return read, nil
}

func (u *userReading) read(r *reader, requests int) {
	tracks, later, notifications, others := r.list(1), r.list(2), r.list(3), r.list(4)
	for i := range u.categories {
		u.categories[i].read(tracks.list(i), r)
	}
	for i := range later.fields {
		one := later.list(i)
		u.later = append(u.later, laterReading{one.text(0), throttle.Micros(one.number(1)), one.number(2)})
		r.adopt(one)
	}
	for i := range requests {
		one := notifications.list(i)
		u.found = append(u.found, found{
			state: one.text(0), waits: one.number(1) == 1, asked: asked{due: throttle.Micros(one.number(2))},
			place: one.number(3), before: int(one.number(4)), deferred: one.number(5) == 1, line: one.text(6),
			admitted: throttle.Micros(one.number(7)), reason: one.text(8),
		})
		u.found[i].expires = throttle.Micros(one.number(9))
		r.adopt(one)
	}
	for i := range others.fields {
		u.others = append(u.others, others.text(i))
	}
	for _, list := range []*reader{tracks, later, notifications, others} {
		r.adopt(list)
	}
}

func (c *categoryReading) read(r, whole *reader) {
	for i := range c.counts {
		c.counts[i] = int(r.number(i))
	}
	places := r.list(4)
	for i := range places.fields {
		c.places = append(c.places, places.number(i))
	}
	past := r.list(5)
	var err error
	c.category, c.ofCap, _, err = c.settings.Plan.ReadPast(past.fields, 0)
	if r.fault == nil {
		r.fault = err
	}
	whole.adopt(places)
	whole.adopt(past)
	whole.adopt(r)
}

// plan finds out when each that was asked for goes.
func (u *userReading) plan(userID string, names []string, requests []request) {
	t, tracks := &timetable{begin: u.now, now: u.now}, map[string]*track{}
	ofCap := &throttle.Past{}
	for _, c := range u.categories {
		ofCap = ofCap.Longer(c.ofCap)
	}
	for i, name := range names {
		c, cuts := &u.categories[i], u.cutsOf(name, requests)
		if c.settings.Paused > 0 && len(cuts) == 0 {
			continue // nobody knows for how long
		}
		key := throttle.Key{User: userID, Category: name}
		tracks[name] = &track{
			settings: c.settings, queue: queueOf(c.counts, c.places, cuts),
			projection: throttle.NewProjection(u.now, key, c.settings.Plan, c.category, ofCap),
		}
		t.tracks = append(t.tracks, tracks[name])
	}
	for _, l := range u.later {
		if track := tracks[l.category]; track != nil {
			t.later = append(t.later, arrival{standing{place: l.place, count: 1}, l.due, track})
		}
	}
	for i, q := range requests {
		if f := &u.found[i]; !f.gone() && f.due > 0 {
			t.later = append(t.later, arrival{standing{place: f.place, asked: &f.asked}, f.due, tracks[q.category]})
		}
	}
	first := map[string]firstOf{}
	for name, l := range tracks {
		if len(l.queue) > 0 {
			at := l.next(u.now)
			first[name] = firstOf{at, l.cause(at)}
		}
	}
	t.plan()
	for i, q := range requests {
		// While the first waits for the end of closed hours, so do all.
		if f := &u.found[i]; first[q.category].by.Closed && f.at > 0 && f.due <= first[q.category].at {
			f.by, f.until = first[q.category].by, first[q.category].at
		}
	}
}

// firstOf is when the first of a backlog goes, and why then.
type firstOf struct {
	at throttle.Micros
	by throttle.Cause
}

// cutsOf are the places in a category that requests are about.
func (u *userReading) cutsOf(category string, requests []request) []cut {
	var cuts []cut
	for i, q := range requests {
		f := &u.found[i]
		if q.category != category || f.gone() {
			continue
		}
		f.refuses = q.refuses
		if f.state == "" {
			f.expires = q.expires
		}
		if f.state == "" && q.due > u.now {
			f.due = q.due
		}
		c := cut{standing: standing{place: f.place}, before: f.before, waits: f.waits}
		if f.due == 0 {
			c.asked = &f.asked
		}
		cuts = append(cuts, c)
	}
	return cuts
}
