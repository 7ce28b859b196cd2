package ops

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/retime"
	"github.com/pacer-notify/pacer/internal/stats"
)

// Metrics are the counters and histograms of this process. None has a label per user. It is the dispatcher's observer.
type Metrics struct {
	accepted    *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	deferrals   *prometheus.CounterVec
	shadows     *prometheus.CounterVec
	overflows   *prometheus.CounterVec
	digests     *prometheus.CounterVec
	repairs     *prometheus.CounterVec
	pulls       prometheus.Counter
	lateness    prometheus.Histogram
	endToEnd    prometheus.Histogram
	digestItems prometheus.Histogram
	provider    *prometheus.HistogramVec
	decision    prometheus.Histogram
	violations  prometheus.Counter
	unended     prometheus.Counter
	checked     prometheus.Gauge
	ends        ends
}

var _ dispatch.Observer = (*Metrics)(nil)

// latencyBuckets go from half a millisecond to ten seconds. latenessBuckets go on to an hour: nothing bounds how long a
// deployment stands still.
var (
	latencyBuckets  = []float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10}
	latenessBuckets = append(slices.Clip(latencyBuckets), 15, 20, 25, 30, 35, 40, 50, 60, 120, 300, 900, 3600)
)

// waitBuckets go from ten milliseconds to a day: a throttled notification waits as long as its windows are.
var waitBuckets = []float64{.01, .05, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}

// Label values: the kinds of repairs, and the outcome of a delivery that did not fail.
const (
	repairedLease    = "lease"
	repairedExpired  = "expired"
	repairedWakeup   = "wakeup"
	outcomeDelivered = "delivered"
)

// NewMetrics registers the metrics of a process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pacer_accepted_total",
			Help: "Notifications that this process accepted, or counted for producers that have no metrics.",
		}, []string{"category"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pacer_deliveries_total",
			Help: "Deliveries by this process; the outcome is delivered or the class of the failure.",
		}, []string{"channel", "outcome"}),
		deferrals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pacer_deferrals_total",
			Help: "Notifications that had to wait, by blocking rule; deliveries returned unsent, by reason.",
		}, []string{"category", "rule"}),
		shadows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pacer_shadow_deferrals_total",
			Help: "Notifications that went out and that a shadow limit would have had wait.",
		}, []string{"category", "rule"}),
		digests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pacer_digests_total",
			Help: "Digests that this process delivered.",
		}, []string{"category"}),
		digestItems: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "pacer_digest_items",
			Help:    "Notifications in the digests that this process delivered.",
			Buckets: []float64{2, 3, 5, 10, 20, 50, 100},
		}),
		overflows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pacer_overflow_total",
			Help: "What overflow ladders did to notifications, by action, as this process heard of it. Where there is none, unbounded counts how often a worker found more than 1000 that wait for one user.",
		}, []string{"category", "action"}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pacer_repairs_total",
			Help: "Repairs by this process's sweeper: lease (unsettled), expired, wakeup (lost and set again).",
		}, []string{"kind"}),
		pulls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pacer_pulls_total", Help: "Wake-ups that this process took off the queue.",
		}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "pacer_delivery_lateness_seconds",
			Help:    "How long after its slot a delivery began. The slot is the latest of: acceptance, send_at, retry, end of the provider's hold, the moment the limits allow, end of a pause.",
			Buckets: latenessBuckets,
		}),
		endToEnd: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pacer_end_to_end_seconds", Help: "From the acceptance of a notification to the end of its delivery.",
			Buckets: waitBuckets,
		}),
		provider: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pacer_provider_seconds", Help: "How long the provider took to respond.", Buckets: latencyBuckets,
		}, []string{"channel"}),
		decision: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pacer_throttle_decision_seconds", Help: "How long the limiter's decision took, round trip included.",
			Buckets: latencyBuckets,
		}),
	}
	m.violations = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pacer_violations_total",
		Help: "Deliveries beyond a limit or in quiet hours that this process's invariant checker found; should stay 0.",
	})
	m.unended = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pacer_unended_total",
		Help: "Notifications that should have ended but have not, found by this process's invariant checker.",
	})
	m.checked = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pacer_invariants_checked_timestamp_seconds",
		Help: "When this process's invariant checker last went through the store; 0 before the first time.",
	})
	for _, c := range []prometheus.Collector{
		m.accepted, m.deliveries, m.deferrals, m.shadows, m.overflows, m.digests, m.digestItems,
		m.repairs, m.pulls, m.lateness, m.endToEnd, m.provider,
		m.decision, m.violations, m.unended, m.checked,
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	for _, kind := range []string{repairedLease, repairedExpired, repairedWakeup} {
		m.repairs.WithLabelValues(kind) // from 0, or Prometheus would not see the first as an increase
	}
	return m, nil
}

// Delivering is told over which channels this process delivers. Each of their outcomes counts from 0, so that
// Prometheus sees the first as an increase.
func (m *Metrics) Delivering(channels []string) {
	for _, channel := range channels {
		m.deliveries.WithLabelValues(channel, outcomeDelivered)
		for class := push.Permanent; class < push.AlreadyDelivered; class++ { // the last is of what is not sent
			m.deliveries.WithLabelValues(channel, class.String())
		}
	}
}

// Accepted counts a newly accepted notification.
func (m *Metrics) Accepted(category string) { m.accepted.WithLabelValues(category).Inc() }

// Adopted counts notifications that processes without metrics accepted.
func (m *Metrics) Adopted(category string, n int64) {
	m.accepted.WithLabelValues(category).Add(float64(n))
}

// Checked counts what a round of the invariant checker found.
func (m *Metrics) Checked(violations, unended int) {
	m.violations.Add(float64(violations))
	m.unended.Add(float64(unended))
	m.checked.SetToCurrentTime()
}

// Repaired counts what the sweeper repaired, and the acceptances that it read from the store.
func (m *Metrics) Repaired(r dispatch.Repairs) {
	m.repairs.WithLabelValues(repairedLease).Add(float64(r.LeasesEnded))
	m.repairs.WithLabelValues(repairedExpired).Add(float64(r.Expired))
	m.repairs.WithLabelValues(repairedWakeup).Add(float64(r.Woken))
	for _, a := range r.Accepted {
		m.Adopted(a.Category, a.Count)
	}
}

// Pulled implements [dispatch.Observer].
func (m *Metrics) Pulled(n int) { m.pulls.Add(float64(n)) }

// Decided implements [dispatch.Observer].
func (m *Metrics) Decided(took time.Duration) { m.decision.Observe(took.Seconds()) }

// Deferred implements [dispatch.Observer].
func (m *Metrics) Deferred(category, rule string, n int) {
	m.deferrals.WithLabelValues(category, rule).Add(float64(n))
}

// Shadowed counts a notification that a shadow rule would have had wait.
func (m *Metrics) Shadowed(category, rule string) { m.shadows.WithLabelValues(category, rule).Inc() }

// Overflowed counts what an overflow ladder did to a notification.
func (m *Metrics) Overflowed(category, action string) {
	m.overflows.WithLabelValues(category, action).Inc()
}

// Sent implements [dispatch.Observer].
func (m *Metrics) Sent(n *notification.Notification, provider, lateness, endToEnd time.Duration, err *push.Error) {
	outcome := outcomeDelivered
	if err != nil {
		outcome = err.Class.String()
	} else {
		m.endToEnd.Observe(endToEnd.Seconds())
		if n.Digest != nil {
			m.digests.WithLabelValues(n.Category).Inc()
			m.digestItems.Observe(float64(n.Digest.Count))
		}
	}
	m.deliveries.WithLabelValues(string(n.Channel), outcome).Inc()
	m.provider.WithLabelValues(string(n.Channel)).Observe(provider.Seconds())
	m.lateness.Observe(lateness.Seconds())
}

// Ended implements [dispatch.Observer].
func (m *Metrics) Ended(status notification.Status, reason string) { m.ends.count(status, reason) }

// Ends are the most frequent reasons for which this process ended notifications undelivered.
func (m *Metrics) Ends() []stats.EndReason { return m.ends.most(endsReported) }

// LatenessCounts counts the deliveries by latency bucket; the last bucket is above all bounds.
func (m *Metrics) LatenessCounts() []uint64 {
	var read dto.Metric
	if err := m.lateness.Write(&read); err != nil {
		return nil // it never fails for a histogram
	}
	counts, below := make([]uint64, len(latenessBuckets)+1), uint64(0)
	for i, bucket := range read.Histogram.Bucket {
		counts[i] = bucket.GetCumulativeCount() - below
		below = bucket.GetCumulativeCount()
	}
	counts[len(latenessBuckets)] = read.Histogram.GetSampleCount() - below
	return counts
}

// Gauges are the deployment's counts, read exactly at each scrape, and what a process knows of itself.
type Gauges struct {
	stats.Counts
	// MaxDefer is the shortest that any category has.
	MaxDefer time.Duration
	// Paused are the subjects that operators paused. Evicts reports whether Redis evicts keys when it is full.
	Paused []control.Subject
	Evicts bool
	// RedisMemory is how much of its memory the fullest Redis server uses, from 0 to 1; 0 without a limit.
	RedisMemory float64
	// Policy is the policy in force in this process. PoliciesDiffer reports whether processes have different ones.
	Policy         Policy
	PoliciesDiffer bool
	// Retime is how far the latest pass is after a change of the policy.
	Retime retime.Progress
	// Secrets are those that this process reads from files.
	Secrets []Secret
	// Workers counts the processes with the worker role, Gone those that are gone without having stopped. ClocksApart
	// is how many seconds the clock of a process and Redis's are apart at most. Up tells of each store whether this
	// process reaches it.
	Workers, Gone int
	ClocksApart   float64
	Up            map[string]bool
	// Breakers counts the hosts whose circuit breaker is not closed in this process. InFlight counts
	// its deliveries; Concurrency is the most there may be.
	Breakers              []push.Breakers
	InFlight, Concurrency int
}

// gaugeCollector reads the gauges when it is scraped. When the deployment's can't be read it returns only the process's
// own, so that graphs show a gap instead of zeros.
type gaugeCollector struct {
	read func(context.Context) (Gauges, error)

	states, quietHeld, digestHeld, heldOver, oldest,
	users, partitions, unreachable, maxDefer, paused, evicts, memory, breakers, inFlight, concurrency,
	policy, policyLoaded, policyRefused, policiesDiffer, retimed, workers, gone, clocksApart, up, ends,
	secretRefused, secretRenewed *prometheus.Desc
}

// scrapeTimeout bounds the reading of the gauges.
const scrapeTimeout = 3 * time.Second

// NewGaugeCollector makes the collector of the deployment-wide gauges.
func NewGaugeCollector(read func(context.Context) (Gauges, error)) prometheus.Collector {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &gaugeCollector{
		read: read,
		states: gauge("pacer_notifications",
			"Notifications in the whole deployment by state; deferred is the one to watch.", "state"),
		quietHeld:  gauge("pacer_quiet_held", "Deferred notifications that quiet hours hold now."),
		digestHeld: gauge("pacer_digest_held", "Deferred notifications that wait for others, to go as one message."),
		heldOver: gauge("pacer_held_overdue",
			"Users' categories whose quiet hours or digest's wait are over, but no wake-up came; should stay 0."),
		oldest: gauge("pacer_deferred_oldest_seconds",
			"Age of the oldest notification that a limit defers, not counting those that quiet hours or digests hold; 0 without any."),
		users:      gauge("pacer_users_deferred", "Users with deferred notifications."),
		partitions: gauge("pacer_partition_deferred", "Deferred notifications by partition.", "partition"),
		unreachable: gauge("pacer_partitions_unreachable",
			"Partitions whose Redis does not respond; the other gauges do not include them."),
		maxDefer: gauge("pacer_max_defer_seconds", "Shortest max_defer of any category of the policy."),
		paused: gauge("pacer_paused", "1 for each channel, category and partition that operators paused.", "kind",
			"name"),
		evicts: gauge("pacer_redis_evicts", "1 when Redis evicts keys once it is full, which loses notifications."),
		memory: gauge("pacer_redis_memory_ratio",
			"Share of maxmemory that the fullest Redis server uses; at 0.9 or more nothing is accepted; 0 without a limit."),
		breakers: gauge("pacer_breakers_open",
			"Hosts that this process does not call for now, because calls to them failed; named by the provider or by targets.",
			"channel", "named_by"),
		policy: gauge("pacer_policy_info", "1 for the version of the policy that this process has in force.", "version"),
		policyLoaded: gauge("pacer_policy_loaded_timestamp_seconds",
			"When the policy that this process has in force was loaded."),
		policyRefused: gauge("pacer_policy_refused",
			"1 while this process refuses its policy file and keeps its earlier policy."),
		policiesDiffer: gauge("pacer_policy_differs", "1 while processes of the deployment have different policies in force."),
		retimed:        gauge("pacer_retime_users", "Users with waiting notifications at the last policy change: done are rescheduled under the new policy, left are not yet; left is 0 once all are.", "state"),
		secretRefused: gauge("pacer_secret_refused",
			"1 while this process can't use a secret's file and keeps its earlier value.", "secret"),
		secretRenewed: gauge("pacer_secret_renewed_timestamp_seconds",
			"When the value in force of a secret was read from its file.", "secret"),
		workers:     gauge("pacer_workers", "Processes with the worker role that are alive."),
		gone:        gauge("pacer_processes_gone", "Processes that vanished without stopping in the last 15 minutes."),
		clocksApart: gauge("pacer_clocks_apart_seconds", "Largest difference between a process's clock and Redis's."),
		up:          gauge("pacer_store_up", "1 for each store that this process reaches, 0 for one that does not respond.", "store"),
		ends:        gauge("pacer_ends_total", "Notifications of the deployment that ended undelivered without an attempt failing for good, by reason.", "reason"),
		inFlight:    gauge("pacer_in_flight", "Deliveries under way in this process, until their providers have answered."),
		concurrency: gauge("pacer_concurrency",
			"Deliveries that may be under way in this process; 0 without the worker role."),
	}
}

// Describe implements [prometheus.Collector].
func (c *gaugeCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.states, c.quietHeld, c.digestHeld, c.heldOver, c.oldest,
		c.users, c.partitions, c.unreachable, c.maxDefer, c.paused, c.evicts, c.memory, c.breakers,
		c.inFlight, c.concurrency, c.policy, c.policyLoaded, c.policyRefused, c.policiesDiffer, c.retimed,
		c.workers, c.gone, c.clocksApart, c.up, c.ends, c.secretRefused, c.secretRenewed,
	} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *gaugeCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	g, err := c.read(ctx)
	tell := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	c.tellOwn(tell, &g)
	if err != nil {
		return
	}
	tell(c.workers, float64(g.Workers))
	tell(c.gone, float64(g.Gone))
	tell(c.clocksApart, g.ClocksApart)
	if !g.Partial { // a counter that falls counts from 0 again once the partition is back
		for _, reason := range endsByAgendas {
			n := endedFor(g.Reasons, reason)
			metrics <- prometheus.MustNewConstMetric(c.ends, prometheus.CounterValue, n, reason)
		}
	}
	c.tellCounts(tell, &g.Counts)
	for _, s := range g.Paused {
		tell(c.paused, 1, string(s.Kind), s.Name)
	}
	tell(c.memory, g.RedisMemory)
	tell(c.evicts, oneIf(g.Evicts))
	tell(c.policiesDiffer, oneIf(g.PoliciesDiffer))
	tell(c.retimed, float64(g.Retime.Done), "done")
	tell(c.retimed, float64(g.Retime.Left()), "left")
}

// tellOwn reports what the process knows without asking the stores, and which of them it reaches.
func (c *gaugeCollector) tellOwn(tell func(*prometheus.Desc, float64, ...string), g *Gauges) {
	for store, up := range g.Up {
		tell(c.up, oneIf(up), store)
	}
	for _, b := range g.Breakers {
		namedBy := "provider"
		if b.OfTargets {
			namedBy = "target"
		}
		tell(c.breakers, float64(b.Open), string(b.Channel), namedBy)
	}
	tell(c.maxDefer, g.MaxDefer.Seconds())
	tell(c.policy, 1, g.Policy.Version)
	tell(c.policyLoaded, float64(g.Policy.LoadedAt.UnixMilli())/1000)
	tell(c.policyRefused, oneIf(g.Policy.Refused != ""))
	for _, of := range g.Secrets {
		tell(c.secretRefused, oneIf(of.Refused != ""), of.Name)
		tell(c.secretRenewed, float64(of.RenewedAt.UnixMilli())/1000, of.Name)
	}
	tell(c.inFlight, float64(g.InFlight))
	tell(c.concurrency, float64(g.Concurrency))
}

// endedFor counts what ended for a reason.
func endedFor(reasons []stats.EndReason, reason string) (n float64) {
	for _, r := range reasons {
		if r.Reason == reason {
			n += float64(r.Count)
		}
	}
	return n
}

// oneIf is the value of a gauge that reports whether something holds.
func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// tellCounts reports what the deployment counts. A partition that could not be asked has no gauge.
func (c *gaugeCollector) tellCounts(tell func(*prometheus.Desc, float64, ...string), counts *stats.Counts) {
	for status, n := range map[notification.Status]int64{
		notification.StatusQueued: counts.Queued, notification.StatusScheduled: counts.Scheduled,
		notification.StatusDeferred: counts.Deferred, notification.StatusRetrying: counts.Retrying,
		notification.StatusSending: counts.Sending,
	} {
		tell(c.states, float64(n), string(status))
	}
	unreachable, heldOver := 0, int64(0)
	for _, p := range counts.Partitions {
		if p.Unreachable {
			unreachable++
			continue
		}
		heldOver += p.HeldOver
		tell(c.partitions, float64(p.Deferred), strconv.Itoa(p.Partition))
	}
	tell(c.unreachable, float64(unreachable))
	tell(c.quietHeld, float64(counts.Waiting.QuietHours))
	tell(c.digestHeld, float64(counts.Waiting.Digest))
	tell(c.heldOver, float64(heldOver))
	tell(c.oldest, counts.OldestDeferredSeconds)
	tell(c.users, float64(counts.UsersDeferred))
}
