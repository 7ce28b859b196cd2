package dispatch

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxTokens is how many tokens one turn has at most.
	maxTokens = 100
	// freePerShare says which part of the free tokens one turn gets: the turns after it need some too.
	freePerShare = 2
	// maxRounds is how many rounds of all partitions are under way at once. A round costs the store much the same
	// whether it grants one delivery or thirty: few rounds that start many deliveries each cost less than many rounds
	// that start few.
	maxRounds = 3
	// countedFor is how long a turn counts among those rounds: a partition whose server does not respond must not keep
	// the others from theirs, and a store that is far away is asked more at once.
	countedFor = 5 * time.Millisecond
)

// capacity is what all partitions share: tokens, of which each delivery in flight holds one (see [token]), and the
// rounds that may be under way at once. Partitions get both in turns: who has waited longest is next, whatever it waits
// for.
type capacity struct {
	size int

	lock   sync.Mutex
	free   int     // tokens; below 0 when some were recalled that others hold
	lent   int     // deliveries that have lent their token
	flying int     // deliveries that have not
	rounds int     // of the turns that count
	line   []*turn // those who wait
}

// turn is one stay in the line, and what it brought. Its owner ends it, granted or not.
type turn struct {
	// granted is closed when it is this turn's turn. From then on the owner may use tokens.
	granted chan struct{}
	// waited tells that it was not granted at once.
	waited bool
	// tokens is how many it holds; most is how many it may get.
	tokens, most int
	// forRound tells that it is for a round, counted that it counts as one now. expiry ends that.
	forRound, counted bool
	expiry            *time.Timer
}

func newCapacity(size int) *capacity { return &capacity{size: size, free: size} }

// forRound joins the line for a round, and its share of the free tokens.
func (c *capacity) forRound() *turn { return c.join(&turn{most: maxTokens, forRound: true}) }

// forTokens joins the line for that many tokens at most.
func (c *capacity) forTokens(most int) *turn { return c.join(&turn{most: most}) }

func (c *capacity) join(t *turn) *turn {
	t.granted = make(chan struct{})
	c.lock.Lock()
	defer c.lock.Unlock()
	c.line = append(c.line, t)
	c.serve()
	t.waited = slices.Contains(c.line, t)
	return t
}

// serve grants turns in the order of the line, as far as there are tokens and rounds. The lock is held.
func (c *capacity) serve() {
	for len(c.line) > 0 && c.free > 0 {
		next := c.line[0]
		if next.forRound {
			if c.rounds == maxRounds {
				return
			}
			c.rounds++
			next.counted = true
			next.expiry = time.AfterFunc(countedFor, func() { c.expire(next) })
		}
		c.line = slices.Delete(c.line, 0, 1)
		c.share(next)
		close(next.granted)
	}
}

// share gives a turn its part of the free tokens, beside those that it holds. The lock is held.
func (c *capacity) share(t *turn) {
	part := min(t.most, max(1, (t.tokens+c.free)/freePerShare))
	more := max(0, min(c.free, part-t.tokens))
	c.free -= more
	t.tokens += more
}

// topUp gives a granted turn its part of the tokens that have become free since.
func (c *capacity) topUp(t *turn) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.share(t)
}

// expire makes a turn count no longer, though its round is still under way.
func (c *capacity) expire(t *turn) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.uncount(t)
	c.serve()
}

func (c *capacity) uncount(t *turn) {
	if t.counted {
		t.counted = false
		t.expiry.Stop()
		c.rounds--
	}
}

// end leaves the line, or returns what the turn holds. It may be called more than once.
func (c *capacity) end(t *turn) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if i := slices.Index(c.line, t); i >= 0 {
		c.line = slices.Delete(c.line, i, i+1)
	}
	c.uncount(t)
	c.free += t.tokens
	t.tokens = 0
	c.serve()
}
