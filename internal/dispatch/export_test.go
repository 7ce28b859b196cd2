package dispatch

// TokensTaken is how many tokens of the capacity are taken.
func (d *Dispatcher) TokensTaken() int { return len(d.capacity) }

// AwaitDeliveries waits for those that have begun.
func (d *Dispatcher) AwaitDeliveries() { d.deliveries.Wait() }
