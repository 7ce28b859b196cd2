package dispatch

// TokensTaken is how many tokens of the capacity are taken.
func (d *Dispatcher) TokensTaken() int {
	d.capacity.lock.Lock()
	defer d.capacity.lock.Unlock()
	return d.capacity.size - d.capacity.free
}

// AwaitDeliveries waits for those that have begun.
func (d *Dispatcher) AwaitDeliveries() { d.deliveries.Wait() }

// RoundsCounted is how many rounds under way count among those that may be.
func (d *Dispatcher) RoundsCounted() int {
	d.capacity.lock.Lock()
	defer d.capacity.lock.Unlock()
	return d.capacity.rounds
}

// What the tests see of the line of turns.
const (
	MaxRounds  = maxRounds
	CountedFor = countedFor
)

// Capacity is capacity with its methods.
type Capacity struct{ *capacity }

// Turn is a turn with its methods.
type Turn struct{ *turn }

// NewCapacity makes one with so many tokens.
func NewCapacity(size int) Capacity { return Capacity{newCapacity(size)} }

// ForRound joins the line for a round.
func (c Capacity) ForRound() *Turn { return &Turn{c.forRound()} }

// ForTokens joins the line for tokens alone.
func (c Capacity) ForTokens(most int) *Turn { return &Turn{c.forTokens(most)} }

// TopUp gives a turn more tokens.
func (c Capacity) TopUp(t *Turn) { c.topUp(t.turn) }

// End ends a turn.
func (c Capacity) End(t *Turn) { c.end(t.turn) }

// Release returns a delivery's token.
func (c Capacity) Release() {
	held := token{capacity: c.capacity}
	held.begin()
	held.end()
}

// State is how many tokens are free, and how many rounds count.
func (c Capacity) State() (free, rounds int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.free, c.rounds
}

// Granted reports whether it is this turn's turn.
func (t *Turn) Granted() bool {
	select {
	case <-t.granted:
		return true
	default:
		return false
	}
}

// Tokens is how many it holds.
func (t *Turn) Tokens() int { return t.tokens }

// Use starts a delivery with one of its tokens; false when it has none.
func (t *Turn) Use() bool {
	if t.tokens == 0 {
		return false
	}
	t.tokens--
	return true
}
