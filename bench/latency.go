package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// latencyPolicy defers the second notification of each user for half a second.
const latencyPolicy = `version: 1
categories:
  default: {limits: [{max: 100, per: 1m}], min_gap: 500ms}
`

// latencies measures how late deliveries are while the process has something to do: a tenth, and half, of what it can.
func latencies(ctx context.Context, o options) ([]figure, error) {
	lasts := 6 * time.Second
	if o.smoke {
		lasts = 300 * time.Millisecond
	}
	alone, err := dispatchAll(ctx, o.n, oneEach)
	if err != nil {
		return nil, err
	}
	single := alone.rate
	atOnce, err := paced(ctx, single/10, lasts, policy, oneEach)
	if err != nil {
		return nil, err
	}
	paired, err := pairedCapacity(ctx, o.n)
	if err != nil {
		return nil, err
	}
	deferred, err := paced(ctx, paired/2, lasts, latencyPolicy, twoEach)
	if err != nil {
		return nil, err
	}
	endToEnd, lateness := atOnce["pacer_end_to_end_seconds"], deferred["pacer_delivery_lateness_seconds"]
	return []figure{
		{
			what:   fmt.Sprintf("accepted to delivered, 10 %% load (%.1f k/s)", single/10000),
			got:    fmt.Sprintf("%.2f %% within 50 ms", 100*endToEnd.within(0.05)),
			wanted: "≥ 99 % within 50 ms",
		},
		{
			what:   fmt.Sprintf("lateness, half load (%.1f k/s), every other deferred", paired/2000),
			got:    fmt.Sprintf("%.2f %% within 20 ms, p99 %.1f ms", 100*lateness.within(0.02), 1000*lateness.quantile(0.99)),
			wanted: "≥ 99 % within 20 ms",
		},
	}, nil
}

// twoEach is two notifications of each user, of which the second is deferred.
func twoEach(i int) notification.Notification { return oneEach(i / 2) }

// pairedCapacity is how many of twoEach are delivered a second at most.
func pairedCapacity(ctx context.Context, n int) (float64, error) {
	store, err := startRedis()
	if err != nil {
		return 0, err
	}
	defer store.stop()
	p, err := startPacer(ctx, store.url, "", latencyPolicy)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	err = errors.Join(p.accept(ctx, n, twoEach), p.Start(ctx))
	if err == nil {
		_, err = p.await(ctx, int64(n))
	}
	return float64(n) / time.Since(start).Seconds(), errors.Join(err, p.stop())
}

// paced accepts rate notifications a second, and returns the process's histograms after all were delivered.
func paced(
	ctx context.Context, rate float64, lasts time.Duration, policyText string, nth func(int) notification.Notification,
) (map[string]histogram, error) {
	store, err := startRedis()
	if err != nil {
		return nil, err
	}
	defer store.stop()
	p, err := startPacer(ctx, store.url, "", policyText)
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	sent, err := p.feed(ctx, rate, lasts, nth)
	if err == nil {
		_, err = p.await(ctx, int64(sent))
	}
	var found map[string]histogram
	if err == nil {
		found, err = histograms(ctx, "http://"+p.OpsAddr()+"/metrics")
	}
	return found, errors.Join(err, p.stop())
}

// feed accepts rate notifications a second, some every five milliseconds, and returns how many it accepted.
func (p *pacer) feed(
	ctx context.Context, rate float64, lasts time.Duration, nth func(int) notification.Notification,
) (sent int, err error) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for start := time.Now(); time.Since(start) < lasts; <-ticker.C {
		due := int(rate*time.Since(start).Seconds()) &^ 1 // pairs stay together
		from := sent
		if err := p.accept(ctx, due-from, func(i int) notification.Notification { return nth(from + i) }); err != nil {
			return sent, err
		}
		sent = due
	}
	return sent, nil
}

// histogram holds how many values were below each bound.
type histogram struct{ bounds, below []float64 }

// histograms reads all histograms on the metrics page of a process.
func histograms(ctx context.Context, url string) (map[string]histogram, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	found := map[string]histogram{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, rest, isBucket := strings.Cut(lines.Text(), `_bucket{le="`)
		bound, value, whole := strings.Cut(rest, `"} `)
		if !isBucket || !whole {
			continue
		}
		h := found[name]
		le, _ := strconv.ParseFloat(bound, 64) // "+Inf" too
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", lines.Text(), err)
		}
		h.bounds, h.below = append(h.bounds, le), append(h.below, n)
		found[name] = h
	}
	return found, nil
}

// within is the share of values up to bound; bound must be one of the histogram's.
func (h histogram) within(bound float64) float64 {
	for i, b := range h.bounds {
		if b == bound {
			return h.below[i] / h.below[len(h.below)-1]
		}
	}
	return math.NaN()
}

// quantile is interpolated within its bucket.
func (h histogram) quantile(q float64) float64 {
	wanted, from, below := q*h.below[len(h.below)-1], 0.0, 0.0
	for i, b := range h.bounds {
		if h.below[i] >= wanted {
			return from + (b-from)*(wanted-below)/max(1, h.below[i]-below)
		}
		from, below = b, h.below[i]
	}
	return math.NaN()
}
