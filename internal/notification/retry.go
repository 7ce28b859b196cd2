package notification

import "time"

// DeliverySettings are what holds for the deliveries of a category over a channel. Where only some of them are said, a
// zero field says nothing.
type DeliverySettings struct {
	// Retry is how failed attempts are retried.
	Retry Retry
	// Timeout is how long an attempt may take.
	Timeout time.Duration
	// Concurrency is how many deliveries over the channel a process makes at once. 0 is as many as it makes at all.
	Concurrency int
}

// The settings of deliveries of which nobody says anything.
const (
	DefaultMaxAttempts = 8
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = 10 * time.Minute
	DefaultTimeout     = 10 * time.Second
)

// DefaultDelivery are the settings of deliveries of which nobody says anything.
func DefaultDelivery() DeliverySettings {
	return DeliverySettings{
		Retry:   Retry{MaxAttempts: DefaultMaxAttempts, MinBackoff: DefaultMinBackoff, MaxBackoff: DefaultMaxBackoff},
		Timeout: DefaultTimeout,
	}
}

// Over lays what is said over settings. A schedule and the bounds of a back-off replace each other. A schedule also
// says how many attempts there are, unless MaxAttempts beside it or nearer says another number.
func (s DeliverySettings) Over(below DeliverySettings) DeliverySettings {
	switch {
	case len(s.Retry.Schedule) > 0:
		below.Retry = Retry{MaxAttempts: len(s.Retry.Schedule) + 1, Schedule: s.Retry.Schedule}
	case s.Retry.MaxBackoff > 0:
		below.Retry = Retry{
			MaxAttempts: below.Retry.MaxAttempts, MinBackoff: s.Retry.MinBackoff, MaxBackoff: s.Retry.MaxBackoff,
		}
	}
	if s.Retry.MaxAttempts > 0 {
		below.Retry.MaxAttempts = s.Retry.MaxAttempts
	}
	if s.Timeout > 0 {
		below.Timeout = s.Timeout
	}
	if s.Concurrency > 0 {
		below.Concurrency = s.Concurrency
	}
	return below
}

// Retry is how failed deliveries are retried: at the steps of a schedule, or after waits that grow between two bounds.
type Retry struct {
	// MaxAttempts is how many attempts there are at most, the first included.
	MaxAttempts int
	// Schedule are the waits after the first failure, the second, and so on. Without one the bounds hold.
	Schedule []time.Duration
	// MinBackoff is the shortest wait between two attempts, MaxBackoff the longest.
	MinBackoff, MaxBackoff time.Duration
}

// scheduleJitter is how much shorter or longer than its step a wait may be: a tenth.
const scheduleJitter = 0.1

// Backoff is how long to wait after so many failures in a row (1 after the first) before the next attempt. rnd gives
// uniform numbers in [0, 1), as [math/rand/v2.Float64] does.
//
// With a schedule the wait is drawn around its step, a tenth shorter to a tenth longer. Behind its end the last step
// holds.
//
// Without one the ceiling doubles with each failure, up to MaxBackoff, and the wait is drawn from the whole range below
// it: "full jitter" of Marc Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), which spreads
// clients that failed together best. The range begins at MinBackoff where the article has 0, so that min_backoff means
// what it says:
//
//	wait = uniform( MinBackoff, min( MaxBackoff, MinBackoff · 2^failures ) )
func (r Retry) Backoff(failures int, rnd func() float64) time.Duration {
	if n := len(r.Schedule); n > 0 {
		step := r.Schedule[min(max(failures, 1), n)-1]
		return step + time.Duration((2*rnd()-1)*scheduleJitter*float64(step))
	}
	ceiling := r.MaxBackoff
	// To ask whether there is room to double can't overflow; to double could.
	if doublings := uint(max(failures, 1)); r.MinBackoff <= r.MaxBackoff>>doublings {
		ceiling = r.MinBackoff << doublings
	}
	return r.MinBackoff + time.Duration(rnd()*float64(ceiling-r.MinBackoff))
}

// Longest is how long all waits between the attempts take together, at most.
func (r Retry) Longest() time.Duration {
	all := time.Duration(0)
	for failures := 1; failures < r.MaxAttempts; failures++ {
		all += r.Backoff(failures, func() float64 { return 1 })
	}
	return all
}
