package notification

import "slices"

// CanBecome reports whether a notification in this status may go to next.
func (s Status) CanBecome(next Status) bool { return slices.Contains(transitions[s], next) }
