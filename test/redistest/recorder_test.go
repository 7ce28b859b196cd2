package redistest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is a test that is allowed to fail: it keeps the messages and runs its own clean-ups.
type recorder struct {
	testing.TB // everything that is not recorded

	mu       sync.Mutex
	messages []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Error(args ...any) { r.store(fmt.Sprint(args...)) }

func (r *recorder) Errorf(format string, args ...any) { r.store(fmt.Sprintf(format, args...)) }

func (r *recorder) Fatal(args ...any) {
	r.store(fmt.Sprint(args...))
	panic(r)
}

func (r *recorder) store(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, message)
}

// failure runs f as a test that must fail and returns what it said.
func failure(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		f(r)
	}()
	for _, cleanup := range slices.Backward(r.cleanups) {
		cleanup()
	}
	if len(r.messages) == 0 {
		t.Fatal("the test did not fail")
	}
	return strings.Join(r.messages, "\n")
}
