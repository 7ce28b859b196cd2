package notification

import "slices"

// Status is where a notification is in its life:
//
//	scheduled ──▶ queued ──▶ deferred ──▶ sending ──▶ delivered
//	                │  ▲         │           │ ├────▶ failed
//	                └──┼─────────┼───────────▶ │
//	                   └─────────┴── retrying ◀┘
//	any waiting status ──▶ cancelled | expired | replaced
type Status string

// The nine states. The last five are ends.
const (
	StatusScheduled Status = "scheduled" // send_at lies ahead
	StatusQueued    Status = "queued"    // waits for a worker
	StatusDeferred  Status = "deferred"  // throttled, waits for its slot
	StatusRetrying  Status = "retrying"  // an attempt failed, waits for the next
	StatusSending   Status = "sending"   // a worker holds it

	StatusDelivered Status = "delivered"
	StatusFailed    Status = "failed"
	StatusExpired   Status = "expired"
	StatusCancelled Status = "cancelled"
	StatusReplaced  Status = "replaced"
)

// Why a notification ended although nobody refused it. They stand in a notification's reason and are stable names.
const (
	ReasonExpired     = "expires_at"
	ReasonMaxDefer    = "max_defer"
	ReasonMaxAttempts = "max_attempts"
	ReasonCrashLoop   = "crash_loop"
	ReasonCancelled   = "cancelled"
	ReasonReplaced    = "collapse_key"
	ReasonOptedOut    = "opted_out"
)

var transitions = map[Status][]Status{
	StatusScheduled: {StatusQueued, StatusCancelled, StatusExpired, StatusReplaced},
	StatusQueued:    {StatusDeferred, StatusSending, StatusCancelled, StatusExpired, StatusReplaced},
	StatusDeferred:  {StatusQueued, StatusSending, StatusCancelled, StatusExpired, StatusReplaced},
	StatusRetrying:  {StatusQueued, StatusDeferred, StatusSending, StatusCancelled, StatusExpired, StatusReplaced},
	// Back to queued: the lease ended, or the worker gave it back unsent.
	StatusSending: {StatusDelivered, StatusFailed, StatusExpired, StatusRetrying, StatusQueued},
}

// CanBecome tells whether a notification in this status may go to next.
func (s Status) CanBecome(next Status) bool { return slices.Contains(transitions[s], next) }

// Ended tells whether the status is one of the five ends.
func (s Status) Ended() bool {
	switch s {
	case StatusDelivered, StatusFailed, StatusExpired, StatusCancelled, StatusReplaced:
		return true
	case StatusScheduled, StatusQueued, StatusDeferred, StatusRetrying, StatusSending:
		return false
	}
	return false
}

// Waiting tells whether the notification can still be cancelled or replaced.
func (s Status) Waiting() bool {
	switch s {
	case StatusScheduled, StatusQueued, StatusDeferred, StatusRetrying:
		return true
	case StatusSending, StatusDelivered, StatusFailed, StatusExpired, StatusCancelled, StatusReplaced:
		return false
	}
	return false
}
