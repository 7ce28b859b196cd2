package slowlog

import (
	"sync"
	"testing"
	"time"
)

// interval is how long a span is, unless the machine makes it longer.
const interval = 50 * time.Millisecond

// Source is a server that is watched.
type Source struct {
	// Disks tells that steps may wait for disks.
	Disks bool
	// PIDs are its processes; none while it is down.
	PIDs func() []int
	// Stops counts how often it was frozen, thawed, killed or started.
	Stops func() int64
	// Read gives the steps that it noted since the last time. An error tells that it is out of reach.
	Read func() ([]Step, error)
}

// Watch looks at a server until it is ended, or the test ends.
type Watch struct {
	tb   testing.TB
	end  func()
	log  Log
	done chan struct{}
}

// Begin watches a server.
func Begin(tb testing.TB, source Source) *Watch {
	tb.Helper()
	stop := make(chan struct{})
	w := &Watch{tb: tb, end: sync.OnceFunc(func() { close(stop) }), done: make(chan struct{})}
	l := &looker{tb: tb, source: source, log: &w.log, from: time.Now(), stops: source.Stops()}
	l.measure()
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				l.look()
				return
			case <-ticker.C:
				l.look()
			}
		}
	}()
	tb.Cleanup(func() { w.End() })
	return w
}

// End looks once more and gives all that was seen.
func (w *Watch) End() *Log {
	w.end()
	<-w.done
	return &w.log
}

// looker is the goroutine of a watch.
type looker struct {
	tb     testing.TB
	source Source
	log    *Log
	meter  Meter
	from   time.Time
	stops  int64
}

func (l *looker) look() {
	steps, err := l.source.Read()
	stalled, pressure := l.measure()
	to, stops := time.Now(), l.source.Stops()
	l.log.Add(Span{
		From: l.from, To: to, Stalled: stalled, Pressure: pressure, Away: err != nil || stops != l.stops,
		Steps: steps,
	})
	l.from, l.stops = to, stops
}

func (l *looker) measure() (stalled, pressure time.Duration) {
	stalled, pressure, err := l.meter.Since(l.source.PIDs())
	if err != nil {
		l.tb.Errorf("measure what the machine keeps from a server: %v", err)
	}
	if !l.source.Disks {
		pressure = 0
	}
	return stalled, pressure
}
