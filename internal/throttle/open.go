package throttle

import "time"

// BeforeExpiry is how long before its expiry something may go that expires while the users begin again.
const BeforeExpiry = time.Minute

// Open is [Closed.Open] for the first that waits for a user, which expires at a moment (0: never). When it would expire
// within the spread, after a closed interval and before the user's part of the spread is over, it may go earlier: a
// minute before it expires, yet not before the interval is over. It has to agree with the Lua function open.
func (p Plan) Open(user string, t, expires Micros) Micros {
	later := partOf(user, p.Spread)
	for _, interval := range p.Closed {
		if t < interval.From {
			break
		}
		over := interval.Until.Add(later)
		if interval.Until < expires && expires <= over {
			over = max(interval.Until, expires.Add(-BeforeExpiry))
		}
		t = max(t, over)
	}
	return t
}
