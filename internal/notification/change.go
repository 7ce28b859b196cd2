package notification

import (
	"strings"
	"time"
)

// Released is what the priority of a notification that an operator has released counts as, in its agenda: it stands
// before all others, and bypasses whatever they wait for. Its own priority stays.
const Released = 0

// Change is what a notification that waits is to have from now on. What is nil or zero stays as it is.
type Change struct {
	// SendAt and ExpiresAt replace the moments; a zero time removes one.
	SendAt, ExpiresAt *time.Time
	Priority          Priority
	// Release has it go at once, whatever limits and quiet hours say: it loses its SendAt.
	Release bool
}

// Apply changes a notification, unless accepting it would refuse the moments that the change gives it: then the errors
// are [*FieldError], joined.
func (c *Change) Apply(n *Notification, now time.Time) error {
	if c.SendAt != nil {
		n.SendAt = *c.SendAt
	}
	if c.ExpiresAt != nil {
		n.ExpiresAt = *c.ExpiresAt
	}
	if c.Priority != 0 {
		n.Priority = c.Priority
	}
	if c.Release {
		n.SendAt = time.Time{}
	}
	if c.SendAt == nil && c.ExpiresAt == nil {
		return nil
	}
	return n.checkTimes(now)
}

// Waits reports whether the change says since when it may go: until then, whatever it waited for counts no more.
func (c *Change) Waits() bool { return c.SendAt != nil || c.Release }

// Event is the kind and the detail of the change in a timeline, such as "changed priority high, send_at none".
func (c *Change) Event() string {
	if c.Release {
		return KindReleased
	}
	var what []string
	if c.Priority != 0 {
		what = append(what, "priority "+c.Priority.String())
	}
	for _, moment := range []struct {
		field string
		at    *time.Time
	}{{"send_at", c.SendAt}, {"expires_at", c.ExpiresAt}} {
		switch {
		case moment.at == nil:
		case moment.at.IsZero():
			what = append(what, moment.field+" none")
		default:
			what = append(what, moment.field+" "+moment.at.UTC().Format(time.RFC3339Nano))
		}
	}
	return KindChanged + " " + strings.Join(what, ", ")
}
