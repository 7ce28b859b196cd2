package throttletest_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/throttle/throttletest"
)

// recorder is a test that only takes notes of its failure.
type recorder struct {
	testing.TB
	failed atomic.Bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Error(...any)          { r.failed.Store(true) }
func (r *recorder) Errorf(string, ...any) { r.failed.Store(true) }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Fail()                 { r.failed.Store(true) }
func (r *recorder) Failed() bool          { return r.failed.Load() }
func (r *recorder) FailNow()              { r.failed.Store(true); runtime.Goexit() }

// fails runs a case and reports whether it fails.
func fails(tb testing.TB, run func(tb testing.TB)) bool {
	tb.Helper()
	r := &recorder{TB: tb}
	var done sync.WaitGroup
	done.Go(func() { run(r) })
	done.Wait()
	return r.Failed()
}

// subject puts a mutant on a fresh memory with a clock that can be set.
func subject(m mutant) throttletest.Subject {
	var now atomic.Int64
	m.Memory = throttle.NewMemory(func() time.Time { return throttle.Micros(now.Load()).Time() })
	return throttletest.Subject{
		Limiter:  m,
		SetClock: func(at throttle.Micros) { now.Store(int64(at)) },
		Stored:   func() []throttletest.Stored { return nil },
	}
}
