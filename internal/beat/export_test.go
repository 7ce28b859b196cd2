package beat

// Reset takes a [Spread] back.
func Reset() { phase.Store(0) }
