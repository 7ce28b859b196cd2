package dispatch

import (
	"sync"
	"time"
)

// patience says how late a grant may be used. That is a fixed time, but on a network that always takes longer nothing
// would ever be sent: so after each late grant of a lane the next one may be twice as late, until one comes in time. A lane
// whose answers always take d gives back about log2(d/limit) grants, once. There all are late alike, so that they keep
// their distances.
type patience struct {
	limit time.Duration

	mu   sync.Mutex
	more map[int]time.Duration // by lane, where the last grants were late
}

// patienceAtMost is how often the limit is doubled at most: 250 ms become 8 s.
const patienceAtMost = 5

// late judges a grant that is that old.
func (p *patience) late(lane int, age time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit, longer := p.more[lane]
	switch {
	case !longer:
		limit = p.limit
	case age <= p.limit:
		delete(p.more, lane)
	}
	if age <= limit {
		return false
	}
	if p.more == nil {
		p.more = map[int]time.Duration{}
	}
	p.more[lane] = min(2*limit, p.limit<<patienceAtMost)
	return true
}
