package dispatch

// TokensTaken is how many tokens of the capacity are taken.
func (d *Dispatcher) TokensTaken() int { return len(d.capacity) }

// AwaitDeliveries waits for those that have begun.
func (d *Dispatcher) AwaitDeliveries() { d.deliveries.Wait() }

// PermitsTaken is how many rounds have a permit.
func (d *Dispatcher) PermitsTaken() int { return len(d.permits) }
