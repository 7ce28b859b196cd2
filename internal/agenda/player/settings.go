package player

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Settings are what the policy, the user's own limits and the operators say about one category of a user.
type Settings struct {
	Plan throttle.Plan
	// OwnLimits says that the plan's rules for the category are the user's own, not the policy's.
	OwnLimits bool
	// MaxDefer is how long a notification may wait for its slot.
	MaxDefer time.Duration
	// BypassFrom is the least urgent priority that bypasses the limits, as the policy's BypassFrom gives it; 0 for
	// none.
	BypassFrom notification.Priority
	// ExemptFrom is the least urgent priority for which the plan's closed intervals do not hold; 0 for none.
	ExemptFrom notification.Priority
	// Drops says that what is due in a closed interval of the plan ends, instead of waiting for the end of the
	// interval.
	Drops bool
	// Digest is how what waits goes as one; nil for not.
	Digest *Digest
	// Overflow is the ladder of the category; nil keeps everything.
	Overflow notification.Ladder
	// Paused is how long nothing of the category is granted; 0 while operators do not pause it.
	Paused time.Duration
	// Removed says that the policy does not name the category: nothing of it is granted until it does.
	Removed bool
	// Zone is the user's time zone, for what is said to people. Defaults to UTC.
	Zone *time.Location
	// Basis names the policy that says this, and the time zone of its closed intervals; it is kept with what is
	// granted.
	Basis notification.Basis
}

// PausedBy is why nothing of the category is granted: one of the reasons of package notification; "" when something
// may be.
func (s Settings) PausedBy() string {
	switch {
	case s.Removed:
		return notification.ReasonRemoved
	case s.Paused > 0:
		return notification.ReasonPaused
	}
	return ""
}

// Same reports whether both are the same for a script.
func (s Settings) Same(o Settings) bool {
	return s.MaxDefer == o.MaxDefer && s.BypassFrom == o.BypassFrom && s.ExemptFrom == o.ExemptFrom &&
		s.Paused == o.Paused && s.Drops == o.Drops && s.Basis == o.Basis && s.Digest.same(o.Digest) &&
		s.Plan.Equal(o.Plan) && slices.Equal(s.Overflow, o.Overflow)
}

// bypasses reports whether a priority waits for nothing; exempts whether closed intervals do not hold for it.
func (s *Settings) bypasses(p notification.Priority) bool { return p.AtLeast(s.BypassFrom) }
func (s *Settings) exempts(p notification.Priority) bool  { return p.AtLeast(s.ExemptFrom) }
