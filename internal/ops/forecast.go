package ops

import (
	"context"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/stats"
)

// forecastShare is what part of the time may go into forecasts: one that took a hundredth of a second holds for a
// second. None holds for longer than forecastLife.
const (
	forecastShare = 100
	forecastLife  = time.Minute
)

// forecasting keeps the latest forecast.
type forecasting struct {
	mu     sync.Mutex
	latest stats.Forecast
	until  time.Time
}

// forecast says what is held, and what of it will be released when.
func (r *Reader) forecast(ctx context.Context) stats.Forecast {
	f := &r.forecasts
	f.mu.Lock()
	defer f.mu.Unlock()
	began := time.Now()
	if began.Before(f.until) {
		return f.latest
	}
	now, err := r.Agendas.Now(ctx)
	if err != nil {
		return stats.Forecast{From: began.UTC()} // it is not exact
	}
	f.latest = outlook.Of(r.Agendas).Forecast(ctx, now)
	f.until = time.Now().Add(min(forecastLife, forecastShare*time.Since(began)))
	return f.latest
}
