package queue

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newTestLogger writes lines without times.
func newTestLogger(text *bytes.Buffer) *logger {
	return &logger{log: slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))}
}

func TestLoggerLetsOneThroughPerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newTestLogger(&text)
		for range 100 { // ten a second for ten seconds
			l.Error("Dequeue error: ", "connection refused")
			<-time.After(100 * time.Millisecond)
		}
		line := `level=ERROR msg="message from asynq" text="Dequeue error: connection refused" suppressed=`
		want := line + "0\n" + strings.Repeat(line+"9\n", 9)
		if diff := cmp.Diff(want, text.String()); diff != "" {
			t.Errorf("log differs (-want +got):\n%s", diff)
		}
	})
}

func TestLoggerKeepsLevels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newTestLogger(&text)
		for _, write := range []func(...any){l.Debug, l.Info, l.Warn, l.Error, l.Fatal} {
			write("n=", 1)
			<-time.After(time.Second)
		}
		want := `level=DEBUG msg="message from asynq" text="n=1" suppressed=0
level=INFO msg="message from asynq" text="n=1" suppressed=0
level=WARN msg="message from asynq" text="n=1" suppressed=0
level=ERROR msg="message from asynq" text="n=1" suppressed=0
level=ERROR msg="message from asynq" text="n=1" suppressed=0
`
		if diff := cmp.Diff(want, text.String()); diff != "" {
			t.Errorf("log differs (-want +got):\n%s", diff)
		}
	})
}

// All servers of a process share one logger, and complain at the same time.
func TestLoggerCountsEveryone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newTestLogger(&text)
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for range 10 {
					l.Warn("away")
				}
			})
		}
		all.Wait()
		<-time.After(time.Second)
		l.Warn("away")
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "suppressed=0") ||
			!strings.HasSuffix(lines[1], "suppressed=639") {
			t.Errorf("640 complaints at once and one later give\n%s", text.String())
		}
	})
}
