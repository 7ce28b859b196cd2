package throttle

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// farAhead is how far ahead of the clock an admission can lie: what lies further was written before the clock was set
// back.
const farAhead = Micros(10 * time.Second / time.Microsecond)

// cell is the state of one key of [Memory], the counterpart of one key in Redis: the log of a rolling plan or of a cap,
// or the counters of another plan.
type cell struct {
	name cellName
	// expires is the last millisecond in which the cell counts.
	expires int64
	// due and index are the cell's place in the order of expiry; due may be earlier than expires.
	due   int64
	index int

	// Of a log: the admissions by time, those at the same time by token; and the time of each token.
	times  []Micros
	tokens []string
	at     map[string]Micros

	// Of counters: the latest admission's token and moment, the moment that a gap counts from, each limit by its Per.
	token    string
	latest   Micros
	gap      Micros
	gapKnown bool
	limits   []limitCounter
}

// cellName tells cells apart.
type cellName struct {
	user, category string
	algorithm      Algorithm
	isCap          bool
}

type limitCounter struct {
	per     time.Duration
	counter counter
}

// log is the cell's admissions as [Next] takes them. A nil cell is an empty one, here and in all that only reads.
func (c *cell) log(rules []Rule) Log {
	if c == nil {
		return Log{Rules: rules}
	}
	return Log{Rules: rules, Admitted: c.times}
}

// insert adds an admission to the log, and forgets all but the newest `most` of the past and what lies ahead.
func (c *cell) insert(most int, now, at Micros, token string) {
	if c.at == nil {
		c.at = make(map[string]Micros)
	}
	i := sort.Search(len(c.times), func(i int) bool {
		return c.times[i] > at || c.times[i] == at && strings.Compare(c.tokens[i], token) > 0
	})
	c.times = slices.Insert(c.times, i, at)
	c.tokens = slices.Insert(c.tokens, i, token)
	c.at[token] = at

	past := sort.Search(len(c.times), func(i int) bool { return c.times[i] > now })
	if excess := past - most; excess > 0 {
		for _, old := range c.tokens[:excess] {
			delete(c.at, old)
		}
		c.times = slices.Delete(c.times, 0, excess)
		c.tokens = slices.Delete(c.tokens, 0, excess)
	}
}

// remove takes an admission out of the log.
func (c *cell) remove(token string) bool {
	if c == nil {
		return false
	}
	at, found := c.at[token]
	if !found {
		return false
	}
	delete(c.at, token)
	i := sort.Search(len(c.times), func(i int) bool { return c.times[i] >= at })
	for c.tokens[i] != token {
		i++
	}
	c.times = slices.Delete(c.times, i, i+1)
	c.tokens = slices.Delete(c.tokens, i, i+1)
	return true
}

// rollingUsage is how many admissions of the log a rule's window holds, and when the oldest of them leaves it.
func (c *cell) rollingUsage(r Rule, now Micros) (used int, frees Micros) {
	if c == nil {
		return 0, 0
	}
	from := sort.Search(len(c.times), func(i int) bool { return c.times[i] > now-r.micros() })
	if from == len(c.times) {
		return 0, 0
	}
	return len(c.times) - from, c.times[from] + r.micros()
}

// counter is that of one limit.
func (c *cell) counter(algorithm Algorithm, r Rule) counter {
	if c != nil {
		for _, l := range c.limits {
			if l.per == r.Per {
				return l.counter.clamped(algorithm, r)
			}
		}
	}
	return counter{}
}

func (c *cell) setCounter(r Rule, to counter) {
	for i, l := range c.limits {
		if l.per == r.Per {
			c.limits[i].counter = to
			return
		}
	}
	c.limits = append(c.limits, limitCounter{per: r.Per, counter: to})
}

// free is the earliest moment that a rule of a fixed window or bucket plan allows.
func (c *cell) free(algorithm Algorithm, r Rule, now Micros) Micros {
	if r.Kind == KindGap {
		if c == nil || !c.gapKnown {
			return now
		}
		return c.gap + r.micros()
	}
	return c.counter(algorithm, r).free(algorithm, r, now)
}

// count charges every counter, and returns the latest moment that one of them holds.
func (c *cell) count(plan Plan, at Micros, token string) Micros {
	c.token, c.latest = token, at
	last := at
	for _, r := range plan.Rules {
		if r.Kind == KindGap {
			if !c.gapKnown || at > c.gap {
				c.gap, c.gapKnown = at, true
			}
			last = max(last, c.gap)
			continue
		}
		charged := c.counter(plan.Algorithm, r).charge(plan.Algorithm, r, at)
		c.setCounter(r, charged)
		last = max(last, charged.from)
	}
	return last
}

// uncount takes an admission out of every counter; false when none of them counted it any more.
func (c *cell) uncount(plan Plan, at Micros, token string) bool {
	found := false
	for _, r := range plan.Rules {
		if r.Kind == KindGap {
			// The admission before this one is not known, but it lies a gap before it or more.
			if c.gapKnown && c.gap == at {
				c.gap = at - r.micros()
				found = true
			}
			continue
		}
		if refunded, counted := c.counter(plan.Algorithm, r).refund(plan.Algorithm, r, at); counted {
			c.setCounter(r, refunded)
			found = true
		}
	}
	if c.token == token {
		c.token = ""
	}
	return found
}

// mend moves what lies too far ahead to now; false when nothing does.
func (c *cell) mend(now Micros) bool {
	if c == nil {
		return false
	}
	far := now + farAhead
	changed := false
	for i := len(c.times) - 1; i >= 0 && c.times[i] > far; i = len(c.times) - 1 {
		// Taken out and put in again, since the order of equal times is that of their tokens.
		token := c.tokens[i]
		c.remove(token)
		c.insert(len(c.times)+1, now, now, token)
		changed = true
	}
	if c.gapKnown && c.gap > far {
		c.gap, changed = now, true
	}
	for i := range c.limits {
		if c.limits[i].counter.from > far {
			c.limits[i].counter.from, changed = now, true
		}
	}
	return changed
}

// expireAfter sets until when the cell counts, as PEXPIRE would.
func (c *cell) expireAfter(now Micros, milliseconds int64) {
	c.expires = milliseconds + int64(now)/1000
}

// expired tells whether the cell counts no more, as a key in Redis at the same moment.
func (c *cell) expired(now Micros) bool { return int64(now)/1000 > c.expires }

// slack is how much longer, in ms, a cell lives than it is needed: as long as a key in Redis, so that both forget a token
// at the same moment.
const slack = 1000

// lifetime is how long, in ms, a cell lives whose latest moment and longest window are these.
func lifetime(now, latest Micros, per time.Duration) int64 {
	return ceilMillis(latest-now+Micros(per.Microseconds())) + slack
}

func ceilMillis(d Micros) int64 { return (int64(d) + 999) / 1000 }
