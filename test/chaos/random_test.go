package chaos_test

import (
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// random makes up a schedule while it is played.
type random struct {
	*rand.Rand
	left  int
	op    int
	ids   []string
	queue []move // decided already
	// shards reports whether Redis is a cluster of which a part may be away.
	shards bool
	// losses reports whether Redis loses what it holds at times.
	losses, evictions bool
	// alike has most notifications of a user replace each other.
	alike bool
	// declines has grants declined often, in backlogs whose wake-up is lost.
	declines bool
	// nights decides what has to do with nights: other schedules are not changed by that.
	nights *rand.Rand
	// caps decides what has to do with named caps and days, likewise.
	caps *rand.Rand
	// digests has more come for digests, in worlds with them.
	digests *rand.Rand
}

func newRandom(seed uint64) (*random, setting) {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0x70616365))}
	set := setting{
		Seed: seed, Durable: r.IntN(3) > 0, Procs: 1 + r.IntN(3), Calm: r.IntN(10) == 0,
		Max: 1 + r.IntN(3), Per: 2 + r.IntN(20), Gap: []int{1, 300, 1500}[r.IntN(3)], Cap: 2 + r.IntN(5),
		CapPer: 2 + r.IntN(20),
	}
	r.left, r.shards, r.losses = 5+r.IntN(45), r.IntN(6) == 0, r.IntN(3) == 0
	r.nights = rand.New(rand.NewPCG(seed, 0x6e69676874))
	if r.nights.IntN(2) == 0 {
		set.Night, set.Dusk, set.Spread = 1+r.nights.IntN(3), r.nights.IntN(3), r.nights.IntN(30)
	}
	set.AtOnce = r.nights.IntN(2) == 0
	r.caps = rand.New(rand.NewPCG(seed, 0x63617073))
	set.caps = randomCaps(r.caps)
	if r.digests = rand.New(rand.NewPCG(seed, 0x646967657374)); r.digests.IntN(2) == 0 {
		set.Digest = 2 + r.digests.IntN(4)
		if !set.Calm && r.digests.IntN(2) == 0 {
			set.Company = 1 + r.digests.IntN(3000)
		}
	} else {
		r.digests = nil
	}
	return r, set
}

// randomCaps gives each kind of them to every third world.
func randomCaps(r *rand.Rand) (c caps) {
	if r.IntN(3) == 0 {
		c.Both, c.BothPer = 1+r.IntN(4), 2+r.IntN(30)
	}
	if r.IntN(3) == 0 {
		c.Push, c.PushPer = 1+r.IntN(2), 2+r.IntN(30)
	}
	if r.IntN(3) == 0 {
		c.Daily, c.DayLasts = 1+r.IntN(3), 10+r.IntN(50)
	}
	return c
}

// users are of both partitions.
var users = []string{"ada", "ben", "cyd"}

// next implements source.
func (r *random) next(w *world) (move, bool) {
	if len(r.queue) > 0 {
		first := r.queue[0]
		r.queue = r.queue[1:]
		if first.Do == "carry on" {
			first = r.carryOn(w, first.Op)
		}
		return first, true
	}
	if r.left--; r.left < 0 {
		return move{}, false
	}
	if (w.Night > 0 || w.Daily > 0) && r.nights.IntN(12) == 0 {
		r.op++
		return move{
			Do: "move", Op: r.op, Proc: r.nights.IntN(w.Procs), ID: users[r.nights.IntN(len(users))], N: r.nights.IntN(2),
		}, true
	}
	if w.Calm {
		return r.calm(w), true
	}
	if r.declines && r.IntN(2) == 0 {
		return r.towardsDecline(w), true
	}
	waiting := w.steps.operations()
	switch n := r.IntN(100); {
	case n < 25 && len(waiting) > 0:
		return r.carryOn(w, waiting[r.IntN(len(waiting))]), true
	case n < 40:
		return move{Do: "pass", N: r.time()}, true
	case n < 43:
		return move{Do: "crash", Proc: r.IntN(w.Procs)}, true
	case n < 55:
		for number, p := range w.procs {
			if p.isDead() {
				return move{Do: "restart", Proc: number}, true
			}
		}
	case n < 60 && len(w.lates) > 0:
		return move{Do: "arrive"}, true
	case n < 62 && w.Durable && (r.losses || r.evictions):
		if r.evictions || r.IntN(4) == 0 {
			return move{Do: "evict", N: r.IntN(partitions)}, true
		}
		return move{Do: "lose", N: r.IntN(partitions+1) - 1}, true
	case n < 63 && r.losses:
		return move{
			Do: "unqueue", N: r.IntN(partitions),
			Step: []string{"", "t", "pending", "scheduled", "active", "lease"}[r.IntN(6)],
		}, true
	case n < 65 && r.shards:
		if w.shardDown >= 0 {
			return move{Do: "shard", N: -1}, true
		}
		return move{Do: "shard", N: r.IntN(partitions)}, true
	}
	return r.begin(w), true
}

// time gives ms: mostly what a step takes, at times what time-outs, leases and looks into the past take.
func (r *random) time() int {
	switch n := r.IntN(20); {
	case n < 8:
		return 1 + r.IntN(400)
	case n < 15:
		return 500 + r.IntN(5000)
	case n < 19:
		return 10_000 + r.IntN(10_000)
	}
	return 65_000
}

// carryOn has an operation make some steps, or one with a fault.
func (r *random) carryOn(w *world, op int) move {
	n := r.IntN(10)
	if s := w.steps.first(op); s != nil && storeOf(s.label) == "provider" && n < 6 {
		n = 9 // few steps are of this kind
	}
	switch {
	case n < 4:
		return move{Do: "go", Op: op, N: 1 + r.IntN(4)}
	case n < 6:
		return move{Do: "go", Op: op, N: 1000}
	}
	return move{Do: "fault", Op: op, Verdict: r.verdict()}
}

func (r *random) verdict() verdict {
	return []verdict{
		notMade, notMade, lost, lost, lost, late, late, twice, lastBefore, lastAfter, lastAfter, refused,
		throttled,
	}[r.IntN(13)]
}

// begin has a process begin something, and mostly go on with it at once.
func (r *random) begin(w *world) move {
	m := r.operation(w)
	r.op++
	m.Op, m.Proc = r.op, r.IntN(w.Procs)
	switch n := r.IntN(10); {
	case n < 5:
		r.queue = append(r.queue, move{Do: "go", Op: m.Op, N: 1000})
	case n < 6 && m.Do == "grab": // it dies with what it has in hand
		r.queue = append(r.queue, move{Do: "go", Op: m.Op, N: 1000}, move{Do: "crash", Proc: m.Proc})
	case n < 6 && r.IntN(2) == 0 && slices.Contains(works, m.Do): // its reply is lost
		r.queue = append(r.queue, move{Do: "until", Op: m.Op, Step: "redis serve"},
			move{Do: "fault", Op: m.Op, Verdict: lost},
			move{Do: "pass", N: r.IntN(400)}, move{Do: "carry on", Op: m.Op})
	case n < 6 && slices.Contains(works, m.Do): // between the grant and its claim
		r.queue = append(r.queue, move{Do: "until", Op: m.Op, Step: "postgres with update"},
			move{Do: "pass", N: 300 + r.IntN(4000)},
			move{Do: "go", Op: m.Op, N: 1000})
	case n < 7: // it stops somewhere
		r.queue = append(r.queue, move{Do: "go", Op: m.Op, N: 1 + r.IntN(7)})
		if r.IntN(2) == 0 {
			r.queue = append(r.queue, move{Do: "pass", N: r.time()}, move{Do: "go", Op: m.Op, N: 1000})
		}
	case n < 9:
		r.queue = append(r.queue, move{Do: "go", Op: m.Op, N: r.IntN(8)}, move{Do: "carry on", Op: m.Op})
		if r.IntN(2) == 0 {
			r.queue = append(r.queue, move{Do: "go", Op: m.Op, N: 1000})
		}
	}
	return m
}

func (r *random) operation(w *world) move {
	switch n := r.IntN(100); {
	case n < 28 || len(r.ids) == 0:
		return r.accept()
	case n < 31: // a producer repeats
		id := r.ids[r.IntN(len(r.ids))]
		if e := w.ledger.entries[id]; e != nil {
			return move{Do: "accept", Items: []item{e.item}}
		}
		return r.accept()
	case n < 62:
		return r.work(w)
	case n < 70:
		return move{Do: "sweep"}
	case n < 80:
		return move{Do: "relay"}
	case n < 84:
		return move{Do: "forward"}
	case n < 88:
		return move{Do: "cancel", ID: r.ids[r.IntN(len(r.ids))]}
	case n < 90:
		return move{Do: []string{"optout", "optin"}[r.IntN(2)], ID: users[r.IntN(len(users))]}
	case n < 93:
		return move{Do: "policy", N: r.IntN(versions)}
	case n < 97:
		return move{Do: []string{"pause", "resume"}[r.IntN(2)], N: r.IntN(partitions)}
	case n < 99:
		return move{Do: "follow"}
	}
	return move{Do: "rebuild"}
}

// works are the moves that make rounds of a partition.
var works = []string{"pull", "grab", "serve"}

// work makes rounds of a partition, where there is something to be had.
func (r *random) work(w *world) move {
	partition := r.IntN(partitions)
	if w.pending(partition) == 0 {
		partition = 1 - partition
	}
	switch n := r.IntN(20); {
	case n < 11:
		return move{Do: "pull", N: partition}
	case n < 14:
		return move{Do: "grab", N: partition}
	case n < 19:
		return move{Do: "serve", N: partition}
	}
	return move{Do: "release", N: partition}
}

// accept makes up to three notifications, mostly of one user.
func (r *random) accept() move {
	var items []item
	user := users[r.IntN(len(users))]
	for range 1 + r.IntN(3) {
		it := item{
			ID: "n" + strconv.Itoa(len(r.ids)+1), User: user,
			Category: []string{"chat", "chat", "news", "free", "urgent"}[r.IntN(5)],
			Priority: 1 + r.IntN(4), ByPush: r.caps.IntN(2) == 0,
		}
		switch r.IntN(12) {
		case 0, 1, 2:
			it.Category, it.Collapse = "chat", "k"
		case 3:
			it.SendIn = 1 + r.IntN(5000)
		case 4:
			it.ExpiresIn = 500 + r.IntN(8000)
		case 5:
			user = users[r.IntN(len(users))]
		}
		if r.alike && r.IntN(2) == 0 {
			it.Category, it.Collapse = "chat", "k"
		}
		r.ids = append(r.ids, it.ID)
		items = append(items, it)
	}
	for r.digests != nil && r.digests.IntN(4) > 0 && len(r.ids) < 30 { // some limits are slow
		r.ids = append(r.ids, "n"+strconv.Itoa(len(r.ids)+1))
		items = append(items, item{
			ID: r.ids[len(r.ids)-1], User: "ada", Category: "news", Priority: 3 + r.digests.IntN(2),
			ExpiresIn: r.digests.IntN(8) / 7 * (500 + r.digests.IntN(8000)),
		})
	}
	return move{Do: "accept", Items: items}
}

// towardsDecline makes what a declined grant needs that matters: a backlog, whose wake-up is lost with a
// worker, and notifications that are cancelled in Postgres alone.
func (r *random) towardsDecline(w *world) move {
	r.op++
	first := move{Op: r.op, Proc: r.IntN(w.Procs)}
	switch n := r.IntN(4); {
	case n == 0 || len(r.ids) == 0:
		first.Do, first.Items = "accept", r.accept().Items
		for range 2 + r.IntN(4) {
			r.ids = append(r.ids, "n"+strconv.Itoa(len(r.ids)+1))
			first.Items = append(first.Items, item{ID: r.ids[len(r.ids)-1], User: "ben", Category: "chat", Priority: 3})
		}
		r.queue = append(r.queue, move{Do: "go", Op: r.op, N: 1000})
	case n == 1:
		first.Do, first.N = "pull", dispatch.PartitionOf("ben", partitions)
		r.queue = append(r.queue, move{Do: "go", Op: r.op, N: 1})
		for range r.IntN(6) {
			r.op++
			r.queue = append(r.queue, move{Do: "pull", Op: r.op, Proc: first.Proc, N: first.N},
				move{Do: "go", Op: r.op, N: 1})
		}
		r.queue = append(r.queue, move{Do: "crash", Proc: first.Proc}, move{Do: "restart", Proc: first.Proc})
	default:
		first.Do, first.ID = "cancel", r.ids[r.IntN(len(r.ids))]
		r.queue = append(r.queue, move{Do: "until", Op: r.op, Step: "redis cancel"},
			move{Do: "fault", Op: r.op, Verdict: notMade})
	}
	return first
}

// calm makes what happens when nothing fails: everybody does at once what is to be done.
func (r *random) calm(w *world) move {
	if waiting := w.steps.operations(); len(waiting) > 0 {
		return move{Do: "go", Op: slices.Min(waiting), N: 1000}
	}
	r.op++
	m := move{Op: r.op, Proc: r.IntN(w.Procs)}
	switch n := r.IntN(10); {
	case n < 4 || len(r.ids) == 0:
		m.Do, m.Items = "accept", r.accept().Items
	case n < 5:
		return move{Do: "pass", N: 1 + r.IntN(3000)}
	case n < 6:
		m.Do = []string{"sweep", "forward", "relay"}[r.IntN(3)]
	default:
		m.Do, m.N = works[r.IntN(len(works))], r.IntN(partitions)
	}
	r.queue = append(r.queue, move{Do: "go", Op: m.Op, N: 1000})
	return m
}
