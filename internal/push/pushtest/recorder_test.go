package pushtest_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// recorder is a test that only records that it failed.
type recorder struct {
	testing.TB
	failed atomic.Bool

	mu      sync.Mutex
	cleanup []func()
}

func (r *recorder) Helper()               {}
func (r *recorder) Error(...any)          { r.failed.Store(true) }
func (r *recorder) Errorf(string, ...any) { r.failed.Store(true) }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Fail()                 { r.failed.Store(true) }
func (r *recorder) Failed() bool          { return r.failed.Load() }
func (r *recorder) FailNow()              { r.failed.Store(true); runtime.Goexit() }

// Cleanup keeps what has to be done at the end of the case, rather than at the end of the real test.
func (r *recorder) Cleanup(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanup = append(r.cleanup, do)
}

// end runs what Cleanup was given, the last first.
func (r *recorder) end() {
	for _, clean := range slices.Backward(r.cleanup) {
		clean()
	}
}

// fails runs a case and reports whether it fails.
func fails(tb testing.TB, run func(tb testing.TB)) bool {
	tb.Helper()
	r := &recorder{TB: tb}
	var done sync.WaitGroup
	done.Go(func() { run(r) })
	done.Wait()
	r.end()
	return r.Failed()
}
