package simulate

// Users is how many users a simulation remembers.
func (s *Simulation) Users() int { return len(s.users) }
