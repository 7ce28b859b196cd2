package ops

import (
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/retime"
	"github.com/pacer-notify/pacer/internal/stats"
)

// Snapshot is what operators see of a deployment at one moment. The dashboard, `dispatcher top` and `dispatcher stats`
// show it.
type Snapshot struct {
	At time.Time `json:"at"`
	stats.Counts
	Rates    Rates    `json:"rates"`
	Lateness Lateness `json:"lateness"`
	// PullsPerDelivery is of the last minute; 0 when nothing was delivered.
	PullsPerDelivery float64 `json:"pulls_per_delivery"`
	// Ended is what ended undelivered of late.
	Ended Ended       `json:"ended"`
	hour  *stats.Hour // what had ended in the present hour; in the first snapshot of a process only
	// Problems are sentences for operators, most urgent first: what does not work, and why.
	Problems []Problem `json:"problems"`
	// Stale says that the deployment can't be read: the figures are those of At, only Problems is of now.
	Stale bool `json:"stale,omitempty"`

	Processes []Process `json:"processes"`
	// Gone are processes that were here of late and did not say that they stop.
	Gone     []presence.Gone `json:"gone,omitempty"`
	Channels []Channel       `json:"channels"`
	// Crowds are the users' categories with the most deferred. Unless CrowdsExact, only some thousands were looked at.
	Crowds      []stats.Crowd `json:"crowds"`
	CrowdsExact bool          `json:"crowds_exact"`
	// DrainedAt is when the last of what is deferred now will have gone, by the limits in force; absent when nothing is
	// deferred. Unless CrowdsExact, it is at least then.
	DrainedAt time.Time `json:"drained_at,omitzero"`
	// Forecast says what is held, and what of it will be released when in the coming 24 hours.
	Forecast stats.Forecast  `json:"forecast"`
	Pauses   []control.Pause `json:"pauses"`
	// Retime is how far what waits is decided again by a new policy; nil when it is not.
	Retime     *retime.Progress `json:"retime,omitempty"`
	Categories []string         `json:"categories"`
	// Endpoints are registered webhook endpoints that fail or are disabled.
	Endpoints  []Endpoint `json:"endpoints,omitempty"`
	Redis      Redis      `json:"redis"`
	Postgres   *Postgres  `json:"postgres,omitempty"`
	Invariants Invariants `json:"invariants"`
}

// Drained says in how long what is deferred now will have gone, in seconds; false when nothing is deferred.
func (s *Snapshot) Drained() (seconds float64, deferred bool) {
	return max(0, s.DrainedAt.Sub(s.At).Seconds()), !s.DrainedAt.IsZero()
}

// Ended counts what failed and expired in the last hour, or since the process that tells it began to look.
type Ended struct {
	Since   time.Time `json:"since,omitzero"`
	Failed  int64     `json:"failed"`
	Expired int64     `json:"expired"`
	// Reasons are the most frequent, of both together.
	Reasons []stats.EndReason `json:"reasons,omitempty"`
}

// Rates are per second, since the snapshot before.
type Rates struct {
	Accepted  float64 `json:"accepted"`
	Delivered float64 `json:"delivered"`
	Deferrals float64 `json:"deferrals"`
	Failed    float64 `json:"failed"`
}

// Lateness is how long after their slots the deliveries of the last minute began, in seconds; 0 when there were none.
type Lateness struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Process is one process of the deployment, with its load.
type Process struct {
	stats.Process
	Concurrency int `json:"concurrency"`
	// Policy is the one in force there; nil for a process that does not tell.
	Policy *Policy `json:"policy,omitempty"`
	// Secrets are those that it reads from files.
	Secrets []Secret `json:"secrets,omitempty"`
	// Receivers are receivers of events that take none, as it knows it.
	Receivers []events.Receiver `json:"receivers,omitempty"`
	// ClockAhead is how many seconds its clock is ahead of Redis's.
	ClockAhead float64 `json:"clock_ahead_seconds"`

	lateness []uint64
	ends     []stats.EndReason
}

// Redis is what the Redis server reports of itself.
type Redis struct {
	Version       string `json:"version"`
	OpsPerSecond  int64  `json:"ops_per_second"`
	Clients       int64  `json:"clients"`
	Memory        int64  `json:"memory_bytes"`
	MaxMemory     int64  `json:"max_memory_bytes"`
	EvictionRule  string `json:"eviction_policy"`
	AppendOnly    bool   `json:"append_only"`
	LastSave      string `json:"last_save"`
	EvictedKeys   int64  `json:"evicted_keys"`
	InThisProcess bool   `json:"in_this_process"`
	// Used is the share of its maxmemory that the fullest server uses; 0 without a limit. Full reports whether it takes
	// nothing more on.
	Used float64 `json:"used_ratio"`
	Full bool    `json:"full"`
}

// Postgres is the connection pool of the process that serves the page.
type Postgres struct {
	InUse int32 `json:"in_use"`
	Idle  int32 `json:"idle"`
	Max   int32 `json:"max"`
	// Waited counts how often a caller had to wait for a connection, since the process began.
	Waited int64 `json:"waited"`
	// Took is how many seconds it took to get a connection and a reply. Error says why there was none.
	Took  float64 `json:"took_seconds"`
	Error string  `json:"error,omitempty"`
	// ClockAhead is how many seconds its clock is ahead of Redis's.
	ClockAhead float64 `json:"clock_ahead_seconds"`
	// Lock is what statements of this deployment wait for; nil when none has for a second.
	Lock *Lock `json:"lock,omitempty"`
}

// Lock is one that a session on Postgres holds.
type Lock struct {
	// Statements count those that wait for a lock, Waited is for how many seconds the first has.
	Statements int     `json:"statements"`
	Waited     float64 `json:"waited_seconds"`
	// PID, User and Application are those of a session that holds one and waits for none.
	PID         int32  `json:"pid"`
	User        string `json:"user"`
	Application string `json:"application"`
}

// Invariants is what the invariant checker found in its last round.
type Invariants struct {
	At         time.Time `json:"at,omitzero"`
	Violations int64     `json:"violations"`
	Unended    int64     `json:"unended"`
	// Unchecked counts the admissions of which nobody can tell afterwards what allowed them, see [invariant.Result].
	Unchecked int64 `json:"unchecked"`
}

// Report is what a process tells the others about itself, for the pages that show the deployment.
type Report struct {
	Concurrency int       `json:"concurrency"`
	Lateness    []uint64  `json:"lateness"` // deliveries by lateness bucket, since the process began
	Channels    []Channel `json:"channels"`
	// Ends are the most frequent reasons for which the process ended notifications undelivered, since it began.
	Ends   []stats.EndReason `json:"ends,omitempty"`
	Policy *Policy           `json:"policy,omitempty"`
	// Ready is the version of the policy by which the process decides, see package retime; empty without workers.
	Ready string `json:"ready,omitempty"`
	// Secrets are those from files.
	Secrets []Secret `json:"secrets,omitempty"`
	// Receivers are receivers of events that take none.
	Receivers []events.Receiver `json:"receivers,omitempty"`
}

// NewProcess makes a Process from its report.
func NewProcess(process stats.Process, report Report) Process {
	return Process{
		Process: process, Concurrency: report.Concurrency, Policy: report.Policy, Secrets: report.Secrets,
		Receivers: report.Receivers, lateness: report.Lateness, ends: report.Ends,
	}
}
