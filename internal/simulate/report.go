package simulate

import (
	"hash/maphash"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Report is what became of all arrivals under a policy.
type Report struct {
	// Policy is its version. From and Until are the moments of the first and the last arrival.
	Policy string    `json:"policy"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	All    Figures   `json:"all"`
	// Categories are the figures of those that something arrived in.
	Categories map[string]Figures `json:"categories"`
	// Against is the same under another policy; nil without.
	Against *Report `json:"against,omitempty"`
}

// Figures are those of a category, or of all.
type Figures struct {
	Arrivals  int64 `json:"arrivals"`
	Delivered int64 `json:"delivered"`
	// Messages is in how many messages they went: what goes as a digest goes in one.
	Messages int64 `json:"messages"`
	// Deferred is how many waited for a limit or for quiet hours.
	Deferred int64 `json:"deferred"`
	// Ended are those that were not delivered, by how and why: "expired max_defer".
	Ended map[string]int64 `json:"ended,omitempty"`
	// Wait is how long those waited that went, from when they might have gone without limits.
	Wait Waits `json:"wait"`
	// Users is of how many users something was deferred, or ended undelivered.
	Users int `json:"users_affected"`
	// Peak is how many messages went in the busiest second.
	Peak int64 `json:"peak_per_second"`
}

// ShareDeferred is how many of the arrivals were deferred, in percent.
func (f *Figures) ShareDeferred() float64 {
	return 100 * float64(f.Deferred) / float64(max(1, f.Arrivals))
}

// EndedAs is how many ended with a status.
func (f *Figures) EndedAs(status string) (n int64) {
	for how, count := range f.Ended {
		if strings.HasPrefix(how, status+" ") {
			n += count
		}
	}
	return n
}

// Waits are a distribution, in seconds: of 100 waits 50, 95 and 99 are not longer.
type Waits struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// tally counts while arrivals are played.
type tally struct {
	from, until throttle.Micros
	all         *counts
	categories  map[string]*counts
	seed        maphash.Seed
}

// counts are those of a category, or of all.
type counts struct {
	figures  Figures
	waits    histogram
	affected map[uint64]struct{} // hashes of users
	// seconds are two in a row, and went how many went in each.
	seconds, went [2]int64
}

func newTally() *tally {
	return &tally{all: newCounts(), categories: map[string]*counts{}, seed: maphash.MakeSeed()}
}

func newCounts() *counts {
	return &counts{affected: map[uint64]struct{}{}, figures: Figures{Ended: map[string]int64{}}}
}

// each calls do with the counts of a category, and with those of all.
func (t *tally) each(category string, do func(*counts)) {
	c := t.categories[category]
	if c == nil {
		c = newCounts()
		t.categories[category] = c
	}
	do(c)
	do(t.all)
}

func (t *tally) arrived(category string, at throttle.Micros) {
	if t.from == 0 {
		t.from = at
	}
	t.until = at
	t.each(category, func(c *counts) { c.figures.Arrivals++ })
}

func (t *tally) deferred(userID, category string) {
	user := maphash.String(t.seed, userID)
	t.each(category, func(c *counts) {
		c.figures.Deferred++
		c.affected[user] = struct{}{}
	})
}

// admitted counts one that goes, with its digest. They come in the order of their moments, but for those that are
// granted ahead: some of the next second come before some of this one.
func (t *tally) admitted(n *player.Note) {
	second := int64(n.Admitted) / time.Second.Microseconds()
	t.each(n.Category, func(c *counts) {
		c.figures.Messages++
		c.waits.add(int64(n.Admitted - n.WaitsSince()))
		for _, item := range n.Items() {
			c.waits.add(int64(n.Admitted - item.WaitsSince()))
		}
		i := second & 1
		if second != c.seconds[i] {
			c.seconds[i], c.went[i] = second, 0
		}
		c.went[i]++
		c.figures.Peak = max(c.figures.Peak, c.went[i])
	})
}

func (t *tally) ended(userID string, n *player.Note) {
	user := maphash.String(t.seed, userID)
	t.each(n.Category, func(c *counts) {
		if n.Status == notification.StatusDelivered {
			c.figures.Delivered++
			return
		}
		c.figures.Ended[string(n.Status)+" "+n.Reason]++
		c.affected[user] = struct{}{}
	})
}

func (t *tally) report(version string) *Report {
	r := &Report{
		Policy: version, From: t.from.Time().UTC(), Until: t.until.Time().UTC(), All: t.all.result(),
		Categories: map[string]Figures{},
	}
	for _, name := range slices.Sorted(maps.Keys(t.categories)) {
		r.Categories[name] = t.categories[name].result()
	}
	return r
}

func (c *counts) result() Figures {
	f := c.figures
	f.Users = len(c.affected)
	f.Wait = Waits{c.waits.quantile(0.5), c.waits.quantile(0.95), c.waits.quantile(0.99), c.waits.most.Seconds()}
	return f
}

// histogram counts waits in µs, in buckets that are 1/64 as wide as what they count, or a µs.
type histogram struct {
	buckets [64 * 64]int64
	n       int64
	most    time.Duration
}

// fine is the binary logarithm of how many buckets there are between a power of two and the next.
const fine = 6

func (h *histogram) add(micros int64) {
	micros = max(0, micros)
	h.n++
	h.most = max(h.most, time.Duration(micros)*time.Microsecond)
	h.buckets[bucketOf(micros)]++
}

// bucketOf is the bucket of a wait.
func bucketOf(micros int64) int {
	if micros < 1<<fine {
		return int(micros)
	}
	shift := bits.Len64(uint64(micros)) - fine - 1
	return shift<<fine + int(micros>>shift)
}

// upTo is the longest wait in a bucket.
func upTo(bucket int) int64 {
	if bucket < 1<<fine {
		return int64(bucket)
	}
	shift := bucket>>fine - 1
	return int64(bucket-shift<<fine+1)<<shift - 1
}

// quantile is a wait, in seconds, that so many are not longer than, of which it is at most a 64th too long.
func (h *histogram) quantile(share float64) float64 {
	wanted := int64(math.Ceil(share * float64(h.n)))
	for bucket, n := range h.buckets {
		if wanted -= n; wanted <= 0 {
			return min(time.Duration(upTo(bucket))*time.Microsecond, h.most).Seconds()
		}
	}
	return h.most.Seconds()
}
