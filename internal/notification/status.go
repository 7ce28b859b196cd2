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

// The ten statuses. The last five are ends.
const (
	StatusScheduled Status = "scheduled" // send_at lies ahead
	StatusQueued    Status = "queued"    // waits for a worker
	StatusDeferred  Status = "deferred"  // throttled, waits for its slot
	StatusRetrying  Status = "retrying"  // an attempt failed, waits for the next
	StatusSending   Status = "sending"   // a worker has a grant for it

	StatusDelivered Status = "delivered"
	StatusFailed    Status = "failed"
	StatusExpired   Status = "expired"
	StatusCancelled Status = "cancelled"
	StatusReplaced  Status = "replaced"
)

// The reasons why a notification ended although no provider refused it. They are stable names.
const (
	ReasonExpired     = "expires_at"
	ReasonMaxDefer    = "max_defer"
	ReasonTooLate     = "too_late"
	ReasonMaxAttempts = "max_attempts"
	ReasonCrashLoop   = "crash_loop"
	ReasonCancelled   = "cancelled"
	ReasonReplaced    = "collapse_key"
	ReasonOptedOut    = "opted_out"
	ReasonQuietHours  = "quiet_hours"
	// ReasonDigest is that of what went with a digest, and of what waits for company.
	ReasonDigest = "digest"
	// ReasonRemoved is that of a notification that waits because the policy does not name its category.
	ReasonRemoved = "category_removed"
	// ReasonMoved is followed by the id under which the notification goes on, over another channel.
	ReasonMoved = "moved: "
)

// transitions are the statuses that may follow each status.
var transitions = map[Status][]Status{
	StatusScheduled: {StatusQueued, StatusDeferred, StatusCancelled, StatusExpired, StatusReplaced},
	StatusQueued:    {StatusDeferred, StatusSending, StatusCancelled, StatusExpired, StatusReplaced},
	StatusDeferred:  {StatusQueued, StatusSending, StatusCancelled, StatusExpired, StatusReplaced},
	StatusRetrying:  {StatusQueued, StatusDeferred, StatusSending, StatusCancelled, StatusExpired, StatusReplaced},
	// Back to queued or deferred: the lease ended, or the worker returned the grant unused. Cancelled or replaced: a
	// worker found that out before it sent, or the store when the notification came back.
	StatusSending: {
		StatusDelivered, StatusFailed, StatusExpired, StatusCancelled, StatusReplaced,
		StatusRetrying, StatusQueued, StatusDeferred,
	},

	StatusDelivered: {},
	StatusFailed:    {},
	StatusExpired:   {},
	StatusCancelled: {},
	StatusReplaced:  {},
}

var waiting = []Status{StatusScheduled, StatusQueued, StatusDeferred, StatusRetrying}

// Ended reports whether the status is one of the five ends.
func (s Status) Ended() bool {
	next, known := transitions[s]
	return known && len(next) == 0
}

// Waiting reports whether the notification can still be cancelled or replaced.
func (s Status) Waiting() bool { return slices.Contains(waiting, s) }
