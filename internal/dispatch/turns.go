package dispatch

import "time"

const (
	// roundsAtOnce is how many rounds of all partitions are under way at once. A round costs the store much the same whether it
	// grants one delivery or thirty: few rounds, each with more of the room, cost less than many with little.
	roundsAtOnce = 3
	// turnPatience is how long a round waits for its turn. Then it goes ahead, so that a partition whose server does not answer
	// keeps nobody from another's, and a store that is far away is asked more at once.
	turnPatience = 5 * time.Millisecond
)

// turns are what rounds wait for, one each.
type turns chan struct{}

// take waits for a turn; false when it waited for long enough, or stopping ends it.
func (t turns) take(stopping <-chan struct{}) bool {
	select {
	case t <- struct{}{}:
		return true
	default:
	}
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	select {
	case t <- struct{}{}:
		return true
	case <-patience.C:
	case <-stopping:
	}
	return false
}

// giveBack ends a turn.
func (t turns) giveBack() { <-t }
