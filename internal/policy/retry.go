package policy

import "time"

// Retry is how failed deliveries are retried.
type Retry struct {
	// MaxAttempts is how many attempts there are at most, the first included. Defaults to 8.
	MaxAttempts int
	// MinBackoff is the shortest wait between two attempts. Defaults to 1 second.
	MinBackoff time.Duration
	// MaxBackoff is the longest wait between two attempts. Defaults to 10 minutes.
	MaxBackoff time.Duration
}

// Backoff is how long to wait after so many failures in a row (1 after the first) before the next attempt. rnd gives
// uniform numbers in [0, 1), as [math/rand/v2.Float64] does.
//
// The ceiling doubles with each failure, up to MaxBackoff, and the wait is drawn from the whole range below it: "full
// jitter" of Marc Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), which spreads clients that
// failed together best. The range begins at MinBackoff where the article has 0, so that min_backoff means what it says:
//
//	wait = uniform( MinBackoff, min( MaxBackoff, MinBackoff · 2^failures ) )
func (r Retry) Backoff(failures int, rnd func() float64) time.Duration {
	ceiling := r.MaxBackoff
	// To ask whether there is room to double can't overflow; to double could.
	if doublings := uint(max(failures, 1)); r.MinBackoff <= r.MaxBackoff>>doublings {
		ceiling = r.MinBackoff << doublings
	}
	return r.MinBackoff + time.Duration(rnd()*float64(ceiling-r.MinBackoff))
}
