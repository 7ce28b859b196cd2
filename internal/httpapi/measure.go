package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// noRoute stands in metrics for requests that no operation matches, whatever their paths are.
const noRoute = "none"

// measured counts requests and how long they take, by operation and status, refused ones included.
func measured(registry prometheus.Registerer) (func(http.Handler) http.Handler, error) {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pacer_api_seconds",
		Help: "How long the API took for a request, by operation and status.",
		// From a single acceptance to the time-out of a bulk request.
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"route", "code"})
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pacer_api_in_flight", Help: "Requests that the API of this process is working on.",
	})
	for _, c := range []prometheus.Collector{took, inFlight} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register the API's metrics: %w", err)
		}
	}
	return func(next http.Handler) http.Handler {
		return promhttp.InstrumentHandlerInFlight(inFlight,
			promhttp.InstrumentHandlerDuration(took, next, promhttp.WithLabelFromCtx("route", routeLabel)))
	}, nil
}

func routeLabel(ctx context.Context) string {
	if found, _ := ctx.Value(originKey{}).(origin); found.route != "" {
		return found.route
	}
	return noRoute
}
