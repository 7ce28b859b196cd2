package script

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// took has how long each script of this process took, from the request to the reply, by whether Redis ran it. There is
// one for the whole process, as its Redis connections are shared.
var took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "pacer_redis_seconds",
	Help:    "How long Redis took for a script of this process, round trip included; the outcome is ok or error.",
	Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
}, []string{"outcome"})

var tookOK, tookError = took.WithLabelValues("ok"), took.WithLabelValues("error")

// Metrics are those of the scripts that this process runs.
func Metrics() prometheus.Collector { return took }

// measure counts one script that began then.
func measure(began time.Time, err error) {
	observer := tookOK
	if err != nil && !errors.Is(err, redis.Nil) {
		observer = tookError
	}
	observer.Observe(time.Since(began).Seconds())
}
