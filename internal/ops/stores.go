package ops

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/script"
)

// Register registers the metrics of the deployment, and of this process's stores.
func (r *Reader) Register(registry prometheus.Registerer) error {
	collectors := []prometheus.Collector{
		NewGaugeCollector(r.Gauges), newPoolCollector(r.Redis, r.Pool), script.Metrics(),
	}
	if r.Endpoints != nil {
		collectors = append(collectors, r.Endpoints)
	}
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("register the metrics: %w", err)
		}
	}
	return nil
}

// poolCollector tells at each scrape how the connections of this process to its stores are used.
type poolCollector struct {
	redis    redis.UniversalClient
	postgres *pgxpool.Pool // nil without Postgres

	connections, most            *prometheus.Desc
	waits, waited, failed, opens *prometheus.Desc
}

// newPoolCollector makes the collector of the connections to Redis and Postgres. The pool may be nil.
func newPoolCollector(client redis.UniversalClient, postgres *pgxpool.Pool) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"store"}, labels...), nil)
	}
	return &poolCollector{
		redis: client, postgres: postgres,
		connections: desc("pacer_pool_connections", "Connections of this process to a store, in use or idle.", "state"),
		most:        desc("pacer_pool_connections_max", "The most connections that this process makes to a store."),
		waits: desc("pacer_pool_waits_total",
			"How often work in this process had to wait for a connection, because all were in use."),
		waited: desc("pacer_pool_wait_seconds_total", "How long work in this process waited for connections, in all."),
		failed: desc("pacer_pool_timeouts_total", "How often work in this process got no connection in time."),
		opens: desc("pacer_pool_opened_total",
			"Connections that this process opened; a high rate means that connections break."),
	}
}

// Describe implements [prometheus.Collector].
func (c *poolCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.connections, c.most, c.waits, c.waited, c.failed, c.opens} {
		descs <- desc
	}
}

// poolUse is how a pool is used, whichever store it leads to. The times are counted since the process began.
type poolUse struct {
	inUse, idle           int
	most                  int // 0 when the store's client does not tell
	waits, failed, opened uint64
	waited                time.Duration
}

// Collect implements [prometheus.Collector].
func (c *poolCollector) Collect(metrics chan<- prometheus.Metric) {
	c.tell(metrics, "redis", redisUse(c.redis))
	if c.postgres != nil {
		c.tell(metrics, "postgres", postgresUse(c.postgres))
	}
}

func (c *poolCollector) tell(metrics chan<- prometheus.Metric, store string, use poolUse) {
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value),
			append([]string{store}, labels...)...)
	}
	counter := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, store)
	}
	gauge(c.connections, use.inUse, "in_use")
	gauge(c.connections, use.idle, "idle")
	if use.most > 0 {
		gauge(c.most, use.most)
	}
	counter(c.waits, float64(use.waits))
	counter(c.waited, use.waited.Seconds())
	counter(c.failed, float64(use.failed))
	counter(c.opens, float64(use.opened))
}

func redisUse(client redis.UniversalClient) poolUse {
	stats := client.PoolStats()
	return poolUse{
		inUse: int(stats.TotalConns) - int(stats.IdleConns), idle: int(stats.IdleConns),
		waits: uint64(stats.WaitCount), waited: time.Duration(stats.WaitDurationNs),
		failed: uint64(stats.Timeouts), opened: uint64(stats.Misses),
	}
}

func postgresUse(pool *pgxpool.Pool) poolUse {
	stat := pool.Stat()
	return poolUse{
		inUse: int(stat.AcquiredConns()), idle: int(stat.IdleConns()), most: int(stat.MaxConns()),
		waits: uint64(stat.EmptyAcquireCount()), waited: stat.EmptyAcquireWaitTime(),
		failed: uint64(stat.CanceledAcquireCount()), opened: uint64(stat.NewConnsCount()),
	}
}
