package invariant

import (
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Hours are when nothing may be admitted.
type Hours struct {
	// Closed are the closed intervals around the moment that is asked about, in order.
	Closed throttle.Closed
	// Spread is over how long the users begin again after each of them.
	Spread time.Duration
	// Until is the moment until which the user wanted quiet; 0 for none. Nothing is spread after it.
	Until throttle.Micros
	// ExemptFrom is the least urgent priority that they do not hold for; 0 for none.
	ExemptFrom notification.Priority
}

// beforeEnd is how long before it expires a notification may go, though others of its user wait for the end of the
// spread.
const beforeEnd = time.Minute

// inClosedHours reports whether an admission came inside a closed interval, or before its user's part of the spread had
// passed.
func (r *round) inClosedHours(m Admission) (violation, bool) {
	if r.cfg.Hours == nil {
		return violation{}, false
	}
	hours := r.cfg.Hours(m)
	if m.Priority.AtLeast(hours.ExemptFrom) {
		return violation{}, false
	}
	from := max(m.At, hours.Until)
	opens := throttle.Plan{Closed: hours.Closed, Spread: hours.Spread}.For(m.UserID).Closed.Open(from)
	if !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(opens.Time()) {
		// It would expire in the spread.
		opens = max(hours.Closed.Open(from), min(opens, throttle.MicrosOf(m.ExpiresAt.Add(-beforeEnd))))
	}
	return violation{m, notification.ReasonQuietHours, opens.Sub(m.At)}, opens > m.At
}
