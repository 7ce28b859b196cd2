package dispatch

import (
	"sync"
	"time"
)

// patience says how late a grant may be used. That is a fixed time, but on a network that always takes longer nothing
// would ever be sent: so after a late grant of a partition the next one may be twice as late, until one comes in time. A partition
// whose answers always take d gives back about log2(d/limit) grants for each worker that asks, once. There all are late
// alike, so that they keep their distances.
//
// Only a grant that was asked for after the last doubling doubles again. All that were under way in one stall are judged as
// if it were the first: a stall says nothing of the network, and what it held back must not go out in a row.
type patience struct {
	limit time.Duration

	mu         sync.Mutex
	partitions map[int]leniency // where the last grants were late
}

// leniency is what a partition's grants are allowed that were asked for since a moment.
type leniency struct {
	limit time.Duration
	since time.Time
}

// patienceAtMost is how often the limit is doubled at most: 250 ms become 8 s.
const patienceAtMost = 5

// late judges a grant that was asked for at a moment, to be used so long after it.
func (p *patience) late(partition int, askedAt time.Time, in time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	age, limit := now.Sub(askedAt.Add(in)), p.limit
	lenient, longer := p.partitions[partition]
	current := !longer || !askedAt.Before(lenient.since)
	if longer && current {
		limit = lenient.limit
	}
	if age <= limit {
		if current && age <= p.limit {
			delete(p.partitions, partition)
		}
		return false
	}
	if current {
		if p.partitions == nil {
			p.partitions = map[int]leniency{}
		}
		p.partitions[partition] = leniency{limit: min(2*limit, p.limit<<patienceAtMost), since: now}
	}
	return true
}
