package dispatch

// token is the right to make one delivery. Once the provider has answered, the delivery lends it to others while its
// result is written: that takes longer than many a send, and costs less the more results are written together. When
// the result can't be written, the delivery takes it back: what can't be settled must not pile up.
type token struct {
	capacity *capacity
	lent     bool
}

// begin has a delivery begin, which a turn gave the token.
func (t *token) begin() {
	c := t.capacity
	c.lock.Lock()
	defer c.lock.Unlock()
	c.flying++
}

// lend lets others use the token, unless there are as many lent as there are tokens.
func (t *token) lend() {
	c := t.capacity
	c.lock.Lock()
	defer c.lock.Unlock()
	if t.lent || c.lent >= c.size {
		return
	}
	t.lent = true
	c.lent++
	c.flying--
	c.free++
	c.serve()
}

// recall takes a lent token back. Nobody gets another one until as many have ended as were recalled.
func (t *token) recall() {
	c := t.capacity
	c.lock.Lock()
	defer c.lock.Unlock()
	if !t.lent {
		return
	}
	t.lent = false
	c.lent--
	c.flying++
	c.free--
}

// end returns the token; the delivery has ended.
func (t *token) end() {
	c := t.capacity
	c.lock.Lock()
	defer c.lock.Unlock()
	if t.lent {
		c.lent--
		return
	}
	c.flying--
	c.free++
	c.serve()
}

// inFlight counts the deliveries that hold a token, and those that lent theirs.
func (c *capacity) inFlight() (sending, settling int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.flying, c.lent
}
