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

// deadline is the moment after which a grant, requested at askedAt and to be used so long after it, comes too late.
func (s *staleness) deadline(partition int, askedAt time.Time, in time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, _ := s.limitOf(partition, askedAt)
	return askedAt.Add(in + limit)
}

// limitOf is how late a grant may be, and whether it was requested after the limit of its partition was last doubled.
// The lock is held.
func (s *staleness) limitOf(partition int, askedAt time.Time) (limit time.Duration, current bool) {
	allowed, longer := s.partitions[partition]
	switch {
	case !longer:
		return s.limit, true
	case askedAt.Before(allowed.since):
		return s.limit, false
	}
	return allowed.limit, true
}

// began notes when the call of a grant began. One that began in time ends what late ones have allowed in its partition.
func (s *staleness) began(partition int, askedAt time.Time, in time.Duration, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partitions) == 0 {
		return
	}
	if _, current := s.limitOf(partition, askedAt); current && at.Sub(askedAt.Add(in)) <= s.limit {
		delete(s.partitions, partition)
	}
}

// late reports whether a grant, requested at askedAt and to be used so long after it, comes too late.
func (s *staleness) late(partition int, askedAt time.Time, in time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	age := now.Sub(askedAt.Add(in))
	limit, current := s.limitOf(partition, askedAt)
	if age <= limit {
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
