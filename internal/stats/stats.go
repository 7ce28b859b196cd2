// Package stats holds what a deployment counts, in one type from the stores to the API, the dashboard, the metrics and
// the command line.
package stats

import "time"

// Stats are the counts of the whole deployment, and its processes.
type Stats struct {
	Counts
	Processes []Process `json:"processes"`
}

// Counts are the counts of the whole deployment.
type Counts struct {
	// Notifications that have not ended, by status; Deferred is the one to watch.
	Queued    int64 `json:"queued"`
	Scheduled int64 `json:"scheduled"`
	Deferred  int64 `json:"deferred"`
	Retrying  int64 `json:"retrying"`
	Sending   int64 `json:"sending"`

	Waiting               Waiting     `json:"waiting"`
	OldestDeferredSeconds float64     `json:"oldest_deferred_seconds" doc:"How long ago the longest notification was accepted that a limit defers; 0 when none does. What quiet hours hold does not count."`
	UsersDeferred         int64       `json:"users_deferred" doc:"Users with deferred notifications."`
	Totals                Totals      `json:"totals"`
	Partitions            []Partition `json:"partitions"`
	// Reasons counts ends that the agendas decided, by reason, since the deployment began.
	Reasons []EndReason `json:"-"`
	Partial bool        `json:"partial,omitempty" doc:"True when a store could not be asked for everything: the figures of the unreachable partitions, the processes, or the exact totals are missing."`
}

// Waiting counts notifications that wait until a moment, by what they wait for.
type Waiting struct {
	Throttle   int64 `json:"throttle"`
	UserCap    int64 `json:"user_cap"`
	QuietHours int64 `json:"quiet_hours"`
	Digest     int64 `json:"digest" doc:"It waits for others, to go with them as one message."`
	Retry      int64 `json:"retry" doc:"An attempt failed; the next one has its time."`
	Provider   int64 `json:"provider" doc:"Nothing was tried: the provider's budget is spent, or the provider is not called at the moment."`
	Scheduled  int64 `json:"scheduled"`
}

// Totals count since the deployment began.
type Totals struct {
	Accepted  int64 `json:"accepted"`
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
	Replaced  int64 `json:"replaced"`
	Pulls     int64 `json:"pulls" doc:"How often a worker took a task off the queue; pulls / delivered is the price of throttling."`
	Deferrals int64 `json:"deferrals"`
	Attempts  int64 `json:"attempts"`
}

// EndReason counts notifications that ended undelivered for one reason.
type EndReason struct {
	Status string `json:"status"` // failed or expired
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// Partition is one partition of the queue.
type Partition struct {
	Partition int   `json:"partition"`
	Queued    int64 `json:"queued"`
	Deferred  int64 `json:"deferred"`
	Sending   int64 `json:"sending"`
	// Steps grows whenever a worker takes something off the queue or begins a delivery; SweptAt is when a worker last
	// looked the partition over, in µs on Redis's clock; up to a minute ago where nothing waits.
	Steps   int64 `json:"-"`
	SweptAt int64 `json:"-"`
	// HeldOver counts the users' categories that quiet hours or the wait of a digest still hold, half a minute after
	// the moment at which that ended.
	HeldOver int64 `json:"-"`
	// The figures of an unreachable partition are in none of the sums.
	Unreachable bool `json:"unreachable,omitempty" doc:"True when the partition's Redis could not be asked: its figures are missing everywhere."`
}

// Process is one process of the deployment.
type Process struct {
	ID       string    `json:"id"`
	Host     string    `json:"host"`
	Roles    []string  `json:"roles"`
	Since    time.Time `json:"since"`
	InFlight int       `json:"in_flight"`
}

// Hour counts what happened in a category in one hour.
type Hour struct {
	Hour      time.Time `json:"hour" doc:"When the hour began."`
	Category  string    `json:"category"`
	Accepted  int64     `json:"accepted"`
	Delivered int64     `json:"delivered"`
	Deferred  int64     `json:"deferred" doc:"Deferrals: how often a notification began to wait for a slot."`
	Failed    int64     `json:"failed"`
	Expired   int64     `json:"expired"`
	Cancelled int64     `json:"cancelled"`
	Replaced  int64     `json:"replaced"`
}

// Crowd is a user's category with deferred notifications.
type Crowd struct {
	UserID   string `json:"user_id"`
	Category string `json:"category"`
	Deferred int64  `json:"deferred"`
	// Reason is what the first of them waits for, as in the view of a notification, and Until when that is over.
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	// Unbounded says that these are too many, and no overflow ladder of the category bounds them.
	Unbounded bool `json:"-"`
}
