package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/reach"
)

// buffer is a log that several goroutines write.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// take returns what was written since the last time.
func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}

func TestRepeatedWarningsAreSummedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text buffer
		log := slog.New(newSumming(slog.NewTextHandler(&text, nil)))
		written := func(want ...string) {
			t.Helper()
			synctest.Wait()
			all := text.take()
			lines := strings.FieldsFunc(all, func(r rune) bool { return r == '\n' })
			if len(lines) != len(want) {
				t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), all)
			}
			for i, line := range lines {
				if !strings.HasSuffix(line, want[i]) {
					t.Errorf("line %d is %s, want %s", i, line, want[i])
				}
			}
		}
		for i := range 1000 {
			log.Warn("the store is away", "notification_id", i, "error", errors.New("refused"))
			log.Info("a fact", "n", i%2)
			if i == 0 {
				written("notification_id=0 error=refused", "n=0")
			}
		}
		text.take()
		<-time.After(summingInterval)
		written("notification_id=999 error=refused repeated=999")
		<-time.After(summingInterval)
		written()
		<-time.After(time.Hour)
		log.Warn("the store is away")
		written(`msg="the store is away"`)

		// Errors are the same only when what they are about is.
		log.Error("a limit was exceeded", "notification_id", "a", "error", errors.New("1"))
		log.Error("a limit was exceeded", "notification_id", "b", "error", errors.New("2"))
		log.Error("a limit was exceeded", "notification_id", "a", "error", errors.New("3"))
		log.With("part", "other").Error("a limit was exceeded", "notification_id", "a", "error", errors.New("4"))
		written("notification_id=a error=1", "notification_id=b error=2", "part=other notification_id=a error=4")
		<-time.After(summingInterval)
		written("notification_id=a error=3 repeated=1")
		<-time.After(2 * summingInterval)
	})
}

// While a store can't be reached, one line says so, and what only follows from that is for debugging.
func TestWhatFollowsFromALostStoreIsNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, checkLostStore) // what is summed up comes later
}

func checkLostStore(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	log := slog.New(newSumming(slog.NewTextHandler(&out, nil)))
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 6379}
	down := &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: syscall.ECONNREFUSED}
	store := &reach.Store{Name: "Redis", Stops: "nothing is delivered", Log: log}
	var fault error
	dial := store.Dial(func(context.Context, string, string) (net.Conn, error) { return nil, fault })
	fails := func() {
		_, _ = dial(t.Context(), "tcp", "redis:6379")
		log.Warn("could not sweep", "error", fmt.Errorf("look: %w", down))
		log.Warn("from the queue", "text", down.Error())
	}
	// Before it was reached, whoever starts says what is wrong.
	for _, fault = range []error{down, nil, down, down, nil} {
		out.WriteString("-\n")
		fails()
		log.Error("a provider fails", "error", "dial tcp 10.0.0.6:443")
	}
	got := regexp.MustCompile(`time=\S+ |after=\S+ `).ReplaceAllString(out.String(), "")
	want := `-
level=WARN msg="could not sweep" error="look: dial tcp 10.0.0.5:6379: connection refused"
level=WARN msg="from the queue" text="dial tcp 10.0.0.5:6379: connection refused"
level=ERROR msg="a provider fails" error="dial tcp 10.0.0.6:443"
-
-
level=WARN msg="a store does not respond" store=Redis stops="nothing is delivered" address=redis:6379 ` +
		`error="dial tcp 10.0.0.5:6379: connection refused"
-
-
level=INFO msg="a store responds again" store=Redis address=redis:6379
`
	if got != want {
		t.Errorf("the log is\n%swant\n%s", got, want)
	}
}
