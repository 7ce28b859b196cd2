package throttle

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"
)

// Memory is the limiter within one process. For the same requests at the same moments it decides as [Redis] does. It is
// safe for concurrent use.
//
// It has three uses. Differential tests compare the Lua with it over random traces, for all algorithms, with clocks
// that are set back and plans that change. Tests of what uses a limiter run on it, without a server. And it runs on any
// clock, so a day of arrivals takes no time.
//
// It has no goroutine of its own: each call removes a few keys whose windows have passed, more than it can add.
type Memory struct {
	clock func() time.Time

	mu    sync.Mutex
	cells map[cellName]*cell
	due   dueHeap
}

// NewMemory makes an empty limiter on a clock; nil means [time.Now].
func NewMemory(clock func() time.Time) *Memory {
	if clock == nil {
		clock = time.Now
	}
	return &Memory{clock: clock, cells: make(map[cellName]*cell)}
}

// Allow implements [Limiter].
func (m *Memory) Allow(ctx context.Context, key Key, plan Plan, token string) (Decision, error) {
	if err := check(ctx, token); err != nil {
		return Decision{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admit(m.newRequest(key, plan), token), nil
}

// Spend implements [Limiter].
func (m *Memory) Spend(ctx context.Context, key Key, plan Plan, token string) (Usage, error) {
	if err := check(ctx, token); err != nil {
		return Usage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	req := m.newRequest(key, plan)
	decision := m.admit(req, token)
	return Usage{Decision: decision, Rules: req.usage()}, nil
}

// Peek implements [Limiter].
func (m *Memory) Peek(ctx context.Context, key Key, plan Plan) (Usage, error) {
	if err := ctx.Err(); err != nil {
		return Usage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	req := m.newRequest(key, plan)
	at, by := req.decide()
	return Usage{Decision: Decision{Allowed: at <= req.now, At: at, Now: req.now, Cause: by}, Rules: req.usage()}, nil
}

// Refund implements [Limiter].
func (m *Memory) Refund(ctx context.Context, key Key, plan Plan, token string, at Micros) (bool, error) {
	if err := check(ctx, token); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newRequest(key, plan).refund(token, at), nil
}

// Clear implements [Limiter].
func (m *Memory) Clear(ctx context.Context, key Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(capName(key))
	for algorithm := range algorithms {
		m.forget(stateName(key, Algorithm(algorithm)))
	}
	return nil
}

// check returns an error when the context has ended or the token is not valid.
func check(ctx context.Context, token string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return checkToken(token)
}

// newRequest gathers what a call needs: the moment, and the cells that exist.
func (m *Memory) newRequest(key Key, plan Plan) *memoryRequest {
	now := MicrosOf(m.clock())
	m.sweep(now)
	req := &memoryRequest{key: key, plan: plan.For(key.User), now: now}
	if plan.counted() {
		req.state = m.find(stateName(key, plan.Algorithm), now)
	}
	if plan.capped() {
		req.cap = m.find(capName(key), now)
	}
	req.namedRules = plan.NamedCaps()
	for _, rules := range req.namedRules {
		req.named = append(req.named, m.find(namedName(key, rules), now))
	}
	return req
}

// admit decides and charges as the Lua function of that name does.
func (m *Memory) admit(req *memoryRequest, token string) Decision {
	if at, found := req.admittedAt(token); found {
		return Decision{Allowed: true, At: at, Now: req.now, Cause: Cause{Rule: NoRule}}
	}
	at, by := req.decideNow()
	if at > req.now {
		return Decision{At: at, Now: req.now, Cause: by}
	}
	m.charge(req, at, token)
	return Decision{Allowed: true, At: at, Now: req.now, Cause: Cause{Rule: NoRule}}
}

// charge counts an admission, whether the rules allow it or not.
func (m *Memory) charge(req *memoryRequest, at Micros, token string) {
	if req.plan.counted() && req.state == nil {
		req.state = m.create(stateName(req.key, req.plan.Algorithm))
	}
	if req.plan.capped() && req.cap == nil {
		req.cap = m.create(capName(req.key))
	}
	for i, rules := range req.namedRules {
		if req.named[i] == nil && rules[0].CountsOn(req.plan.Head.Channel) {
			req.named[i] = m.create(namedName(req.key, rules))
		}
	}
	req.charge(at, token)
	m.schedule(req.state)
	m.schedule(req.cap)
	for _, c := range req.named {
		m.schedule(c)
	}
}

// stateName is the cell of a category's windows.
func stateName(key Key, algorithm Algorithm) cellName {
	return cellName{user: key.User, category: key.Category, algorithm: algorithm}
}

// capName is the cell of a user's cap.
func capName(key Key) cellName { return cellName{user: key.User, isCap: true} }

// namedName is the cell of a user's named cap.
func namedName(key Key, rules []Rule) cellName {
	return cellName{user: key.User, named: rules[0].Cap, isCap: true}
}

// find returns a cell that still counts, or nil.
func (m *Memory) find(name cellName, now Micros) *cell {
	c := m.cells[name]
	if c != nil && c.expired(now) {
		m.forget(name)
		return nil
	}
	return c
}

// create adds an empty cell, which has to be scheduled.
func (m *Memory) create(name cellName) *cell {
	c := &cell{name: name, due: math.MaxInt64}
	m.cells[name] = c
	heap.Push(&m.due, c)
	return c
}

// schedule puts a cell that was charged into the order of expiry, unless it is early enough there: sweep moves it on
// when its turn comes.
func (m *Memory) schedule(c *cell) {
	if c != nil && c.expires < c.due {
		c.due = c.expires
		heap.Fix(&m.due, c.index)
	}
}

// forget removes a cell, if it is there.
func (m *Memory) forget(name cellName) {
	if c := m.cells[name]; c != nil {
		delete(m.cells, name)
		heap.Remove(&m.due, c.index)
	}
}

// sweep looks at a few cells whose turn has come. A call adds at most two turns, and one for each named
// cap, so what is left never grows.
func (m *Memory) sweep(now Micros) {
	for range 4 + MaxNamedCaps {
		if len(m.due) == 0 || int64(now)/1000 <= m.due[0].due {
			return
		}
		if c := m.due[0]; c.expired(now) {
			m.forget(c.name)
		} else {
			c.due = c.expires
			heap.Fix(&m.due, c.index)
		}
	}
}

// dueHeap orders cells by when sweep has to look at them.
type dueHeap []*cell

// Len implements heap.Interface.
func (h dueHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }

// Swap implements heap.Interface.
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	c := x.(*cell) //nolint:errcheck,forcetypeassert // Nothing else is pushed.
	c.index = len(*h)
	*h = append(*h, c)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
