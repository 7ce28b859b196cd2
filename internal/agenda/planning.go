package agenda

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// planning finds out when notifications of a user go, from what was read of the user. Categories that share caps are
// planned together, in one timetable, and others apart.
type planning struct {
	*userReading

	agendas  *Agendas
	userID   string
	requests []request
	tracks   map[string]*track // by category; none of a paused one, of which nobody knows for how long
	tables   []*timetable
	// unread are categories that share caps with some of the others, and are too many to be read.
	unread []string
	// missing are those that became known only when what is later was read on.
	missing []string
}

func (a *Agendas) planningOf(userID string, read *userReading, requests []request) *planning {
	p := &planning{
		userReading: read, agendas: a, userID: userID, requests: requests, tracks: map[string]*track{},
	}
	caps := &throttle.CapPasts{}
	for _, c := range read.categories {
		caps.Adopt(c.caps)
	}
	for i, name := range read.names {
		c, cuts := &read.categories[i], p.cutsOf(name)
		if c.settings.PausedBy() != "" && len(cuts) == 0 {
			continue
		}
		key := throttle.Key{User: userID, Category: name}
		p.tracks[name] = &track{
			category: name, settings: c.settings, queue: queueOf(c.counts, c.first, cuts),
			projection: throttle.NewProjection(read.now, key, c.settings.Plan, c.past, caps),
		}
		p.join(p.tracks[name])
	}
	return p
}

// join puts a track into the timetable of those with which it shares caps, or into one of its own.
func (p *planning) join(tr *track) {
	joined := &timetable{begin: p.now, now: p.now, tracks: []*track{tr}, reader: p}
	p.tables = slices.DeleteFunc(p.tables, func(t *timetable) bool {
		if !t.sharesCap(tr.settings) {
			return false
		}
		joined.tracks = append(joined.tracks, t.tracks...)
		return true
	})
	p.tables = append(p.tables, joined)
}

// plan plans everything. When it finds that further categories have to be read, it returns these.
func (p *planning) plan(ctx context.Context) ([]string, error) {
	first := map[string]firstOf{}
	for name, tr := range p.tracks {
		if len(tr.queue) > 0 {
			at := tr.next(p.now)
			first[name] = firstOf{at, tr.cause(at)}
		}
	}
	for _, t := range p.tables {
		p.askedLater(t)
		p.arrive(t)
		t.unseen = p.unseenOf(t)
		if err := t.plan(ctx); err != nil {
			return nil, err
		}
	}
	for i, q := range p.requests {
		// While the first waits for the end of closed hours, so do all.
		if f := &p.found[i]; first[q.category].by.Closed && f.at > 0 && f.due <= first[q.category].at {
			f.by, f.until = first[q.category].by, first[q.category].at
		}
	}
	p.copyReplaced()
	return p.missing, nil
}

// replacementOf returns the index of the last request that would replace what a request asks for, as it has the same
// collapse key; -1 for none.
func (p *planning) replacementOf(i int) int {
	q, f := &p.requests[i], &p.found[i]
	if q.collapse == "" || f.gone() {
		return -1
	}
	for j := len(p.requests) - 1; j >= 0; j-- {
		if f.state == "" && j <= i {
			break
		}
		if r := &p.requests[j]; p.found[j].state == "" && r.collapse == q.collapse && r.category == q.category {
			return j
		}
	}
	return -1
}

// copyReplaced says of what is replaced by another that is asked for that it goes when the other does.
func (p *planning) copyReplaced() {
	for i, q := range p.requests {
		f, j := &p.found[i], p.replacementOf(i)
		if j < 0 {
			continue
		}
		f.asked, f.refused = p.found[j].asked, ""
		if q.refuses != nil {
			f.refused = q.refuses(max(p.now, f.due), f.at)
		}
	}
}

// firstOf is when the first of a backlog goes, and why then.
type firstOf struct {
	at throttle.Micros
	by throttle.Cause
}

// askedLater has what is asked for and is later arrive in a timetable.
func (p *planning) askedLater(t *timetable) {
	for i, q := range p.requests {
		f, tr := &p.found[i], p.tracks[q.category]
		if f.gone() || f.due == 0 || !slices.Contains(t.tracks, tr) || p.replacementOf(i) >= 0 {
			continue
		}
		t.later = append(t.later, arrival{standing{place: f.place, channel: f.channel, asked: &f.asked}, f.due, tr})
	}
}

// arrive has what was read of what is later arrive in a timetable, where it is neither asked for nor replaced.
func (p *planning) arrive(t *timetable) {
	for _, one := range p.later.ones[t.laterRead:] {
		leftOut := slices.ContainsFunc(p.requests, func(q request) bool { return q.id == one.id }) ||
			slices.ContainsFunc(p.found, func(f found) bool { return f.replaces == one.id })
		tr := p.tracks[one.category]
		if tr != nil && !leftOut && slices.Contains(t.tracks, tr) {
			t.later = append(t.later, arrival{one.standing, one.due, tr})
		}
		if tr == nil && t.sharesCap(p.agendas.cfg.Settings(p.userID, one.category)) && one.category != "" &&
			!slices.Contains(slices.Concat(p.names, p.unread, p.missing), one.category) {
			p.missing = append(p.missing, one.category)
		}
	}
	t.laterRead, t.laterFrom = len(p.later.ones), never
	t.unreadLater = max(0, p.later.count-t.laterRead)
	if t.unreadLater > 0 && t.laterRead > 0 {
		t.laterFrom = p.later.ones[t.laterRead-1].due
	}
}

// unseenOf counts what waits in categories that are not read, and shares caps with a timetable.
func (p *planning) unseenOf(t *timetable) (n int) {
	for _, name := range p.unread {
		if t.sharesCap(p.agendas.cfg.Settings(p.userID, name)) {
			n += p.others[name]
		}
	}
	return n
}

// readBatch is how many are read on at a time.
const readBatch = 500

// readPlaces reads on from the first of a track, whose place is not known.
func (p *planning) readPlaces(ctx context.Context, tr *track) (int, error) {
	head := tr.queue[0]
	r, err := p.readOn(ctx, tr.settings.Plan.ByChannel(), min(readBatch, head.count), head.skip, head.place,
		strconv.FormatInt(head.until, 10), tr.category)
	if err != nil {
		return 0, fmt.Errorf("read on in the backlog of category %s: %w", tr.category, err)
	}
	read := readStandings(r)
	tr.queue = slices.Concat(withRest(read, head), tr.queue[1:])
	slices.SortStableFunc(tr.queue, func(a, b standing) int { return cmp.Compare(a.place, b.place) })
	return len(read), r.fault
}

// readLater reads on what is later, until a timetable knows more of it.
func (p *planning) readLater(ctx context.Context, t *timetable) (n int, err error) {
	if t.laterRead == len(p.later.ones) {
		last, same := p.later.ones[t.laterRead-1].due, 0
		for _, one := range p.later.ones {
			if one.due == last {
				same++
			}
		}
		byChannel := slices.ContainsFunc(p.categories,
			func(c categoryReading) bool { return c.settings.Plan.ByChannel() })
		r, err := p.readOn(ctx, byChannel, readBatch, same, int64(last))
		if err != nil {
			return 0, fmt.Errorf("read on what is later: %w", err)
		}
		read := readLater(r)
		p.later.ones = append(p.later.ones, read...)
		if len(read) < readBatch {
			p.later.count = len(p.later.ones)
		}
		if r.fault != nil {
			return 0, r.fault
		}
		n = len(read)
	}
	p.arrive(t)
	return n, nil
}

// readOn runs the script of that name.
func (p *planning) readOn(ctx context.Context, channels bool, most, skip int, from int64, backlog ...any,
) (*reader, error) {
	args := append([]any{
		p.userID, flag(channels), strconv.Itoa(most), strconv.Itoa(skip), strconv.FormatInt(from, 10),
	}, backlog...)
	reply, err := p.agendas.Run(ctx, p.agendas.readon, p.agendas.PartitionOf(p.userID), args)
	return &reader{fields: reply}, err
}

// cutsOf are the places in a category that requests are about.
func (p *planning) cutsOf(category string) (cuts []cut) {
	var leaving []cut
	for i, q := range p.requests {
		f := &p.found[i]
		if q.category != category || f.gone() {
			continue
		}
		p.complete(&q, f)
		if f.replacedPlace > 0 {
			leaving = append(leaving, cut{
				standing: standing{place: f.replacedPlace}, before: f.beforeReplaced, waits: true, leaves: true,
			})
		}
		if p.replacementOf(i) >= 0 {
			continue
		}
		c := cut{standing: standing{place: f.place, channel: f.channel}, before: f.before, waits: f.waits}
		if f.due == 0 {
			c.asked = &f.asked
		}
		cuts = append(cuts, c)
	}
	return slices.Concat(cuts, leaving)
}

// complete completes what was found by what only the request says.
func (p *planning) complete(q *request, f *found) {
	f.refuses, f.stays = q.refuses, f.replacedPlace > 0
	if f.state == "" {
		f.expires, f.channel = q.expires, q.channel
	}
	if f.state == "" && q.due > p.now {
		f.due = q.due
	}
}
