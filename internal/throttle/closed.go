package throttle

import (
	"crypto/sha1" //nolint:gosec // see partOf
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Interval is a stretch of time: From belongs to it, Until no longer does.
type Interval struct{ From, Until Micros }

// Closed are stretches of time in which nothing is admitted, such as a user's nights. They are in order, and neither
// overlap nor touch.
type Closed []Interval

// MaxClosed is how many intervals a plan may have.
const MaxClosed = 16

// Open is the earliest moment, not before t, that is in none of the intervals. A later t never gives an earlier one.
func (c Closed) Open(t Micros) Micros {
	for _, interval := range c {
		if t < interval.From {
			break
		}
		if t < interval.Until {
			return interval.Until
		}
	}
	return t
}

// Validate refuses intervals that a limiter would not understand.
func (c Closed) Validate() error {
	var faults []error
	if len(c) > MaxClosed {
		faults = append(faults, fmt.Errorf("has %d closed intervals, may have %d", len(c), MaxClosed))
	}
	for i, interval := range c {
		switch {
		case interval.Until <= interval.From:
			faults = append(faults, fmt.Errorf("closed interval %d ends before it begins", i+1))
		case i > 0 && interval.From <= c[i-1].Until:
			faults = append(faults, fmt.Errorf("closed interval %d begins before the one before it has ended", i+1))
		}
	}
	return errors.Join(faults...)
}

// later gives intervals that end later. One that then reaches the next is made one with it.
func (c Closed) later(by time.Duration) Closed {
	if by == 0 {
		return c
	}
	moved := make(Closed, 0, len(c))
	for _, interval := range c {
		interval.Until = interval.Until.Add(by)
		if last := len(moved) - 1; last >= 0 && interval.From <= moved[last].Until {
			moved[last].Until = interval.Until
			continue
		}
		moved = append(moved, interval)
	}
	return moved
}

// partOf is a user's part of a spread, always the same, and evenly distributed over the users.
func partOf(user string, spread time.Duration) time.Duration {
	if spread == 0 {
		return 0
	}
	sum := sha1.Sum([]byte(user)) //nolint:gosec // it spreads, and is what Redis has
	part := int64(binary.BigEndian.Uint16(sum[:]))
	return time.Duration(part*spread.Microseconds()>>16) * time.Microsecond
}

// args appends the intervals and their spread in the form that a script reads.
func (c Closed) args(args []any, spread time.Duration) []any {
	args = append(args, strconv.Itoa(len(c)), strconv.FormatInt(spread.Microseconds(), 10))
	for _, interval := range c {
		args = append(args, strconv.FormatInt(int64(interval.From), 10), strconv.FormatInt(int64(interval.Until), 10))
	}
	return args
}

// Cause is what decides a moment.
type Cause struct {
	// Rule is the index of the rule that decides, or [NoRule].
	Rule int
	// Closed tells that the moment is the end of a closed interval. Rule is then the one that would decide without it.
	Closed bool
}

// DigestRule stands for a rule where something waits to go together with others. No plan has so many.
const DigestRule = 999

// CauseOf reads the number that a script gives for a cause: 0 for none, the place of a rule from 1 on; below 0 a closed
// interval decides, and −1 stands for 0, −2 for 1.
func CauseOf(number int64) Cause {
	if number < 0 {
		return Cause{Rule: int(-1-number) - 1, Closed: true}
	}
	return Cause{Rule: int(number) - 1}
}
