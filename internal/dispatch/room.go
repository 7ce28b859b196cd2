package dispatch

// room is for deliveries in flight, of all partitions together: one token each. Who waits for a token gets it in turn.
type room chan struct{}

const (
	// roomAtOnce is how many tokens one round has at most.
	roomAtOnce = 100
	// shareOfFree says which part of the free room one round takes: the others' rounds need some too.
	shareOfFree = 2
)

// topUp takes tokens, besides those that are held already, until the holder has its share of what is free. It does not wait.
func (r room) topUp(held int) (more int) {
	share := min(roomAtOnce, max(1, (held+cap(r)-len(r))/shareOfFree))
	for held+more < share {
		select {
		case r <- struct{}{}:
			more++
		default:
			return more
		}
	}
	return more
}

// giveBack frees that many tokens.
func (r room) giveBack(n int) {
	for range n {
		<-r
	}
}
