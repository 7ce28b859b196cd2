package dispatch

// RoomTaken is how many tokens of the room are out.
func (d *Dispatcher) RoomTaken() int { return len(d.room) }

// AwaitDeliveries waits for those that have begun.
func (d *Dispatcher) AwaitDeliveries() { d.deliveries.Wait() }
