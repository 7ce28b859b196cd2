package throttletest

import (
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Drain is how long n admissions take under rules at best: the first goes at once, and each of the others as soon as it
// may. It is what the drain of a crowd is measured against.
func Drain(n int, rules ...throttle.Rule) time.Duration {
	log := throttle.Log{Rules: rules}
	var last throttle.Micros
	for range n {
		last, _ = throttle.Next(last, nil, log)
		log.Admitted = append(log.Admitted, last)
	}
	return last.Sub(0)
}
