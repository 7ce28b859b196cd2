package dispatch

import "time"

const (
	// maxRounds is how many rounds of all partitions are under way at once. A round costs the store much the same whether it
	// grants one delivery or thirty: few rounds that start many deliveries each cost less than many rounds that start few.
	maxRounds = 3
	// permitTimeout is how long a round waits for its permit. Then it is made without one: a partition whose server does not
	// answer must not keep the others from theirs, and a store that is far away is asked more at once.
	permitTimeout = 5 * time.Millisecond
)

// permits is a semaphore: each round holds one, unless it had to wait for it too long.
type permits chan struct{}

// acquire waits for a permit; false after permitTimeout, or when the dispatcher stops.
func (p permits) acquire(stopping <-chan struct{}) bool {
	select {
	case p <- struct{}{}:
		return true
	default:
	}
	timeout := time.NewTimer(permitTimeout)
	defer timeout.Stop()
	select {
	case p <- struct{}{}:
		return true
	case <-timeout.C:
	case <-stopping:
	}
	return false
}

func (p permits) release() { <-p }
