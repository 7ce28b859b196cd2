package dispatch

import (
	"sync"
	"time"
)

// staleness decides whether a grant comes too late to be used. It may be late by a fixed limit; but on a network on
// which every reply takes longer than that, nothing would ever be sent. So after a late grant the next one of its
// partition may be twice as late, until one comes in time. Where every reply takes d, each worker returns about
// log2(d/limit) grants, once. From then on all grants are equally late, so they keep their distances.
//
// A grant doubles the limit only if it was asked for after the last doubling. All that were under way during one stall
// are held to the same limit: a stall says nothing about the network, and what it held back must not go out in a row.
type staleness struct {
	limit time.Duration

	mu         sync.Mutex
	partitions map[int]allowance // where the last grants were late
}

// allowance is how late grants of a partition may be that were asked for since a moment.
type allowance struct {
	limit time.Duration
	since time.Time
}

// maxDoublings is how often the limit is doubled at most: 250 ms become 8 s.
const maxDoublings = 5

// late tells whether a grant, requested at askedAt and to be used so long after it, comes too late.
func (s *staleness) late(partition int, askedAt time.Time, in time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	age, limit := now.Sub(askedAt.Add(in)), s.limit
	allowed, longer := s.partitions[partition]
	current := !longer || !askedAt.Before(allowed.since)
	if longer && current {
		limit = allowed.limit
	}
	if age <= limit {
		if current && age <= s.limit {
			delete(s.partitions, partition)
		}
		return false
	}
	if current {
		if s.partitions == nil {
			s.partitions = map[int]allowance{}
		}
		s.partitions[partition] = allowance{limit: min(2*limit, s.limit<<maxDoublings), since: now}
	}
	return true
}
