package dispatch

// capacity is a semaphore: each delivery in flight, of whatever partition, holds one of its tokens. Those who wait for a token
// get it in the order in which they came.
type capacity chan struct{}

const (
	// maxTokens is how many tokens one round has at most.
	maxTokens = 100
	// freePerShare says which part of the free tokens one round takes: the rounds of other partitions need some too.
	freePerShare = 2
)

// topUp takes tokens, without waiting, until a round that has some already has its share of the free ones. It returns how many
// it took.
func (c capacity) topUp(has int) (taken int) {
	share := min(maxTokens, max(1, (has+cap(c)-len(c))/freePerShare))
	for has+taken < share {
		select {
		case c <- struct{}{}:
			taken++
		default:
			return taken
		}
	}
	return taken
}

// release returns that many tokens.
func (c capacity) release(tokens int) {
	for range tokens {
		<-c
	}
}
