package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// inBubble runs the loop of a watch on virtual time, with events that the test sends, and returns what it logged. The
// first look is made when the test begins; again is what each look returns.
func inBubble(t *testing.T, again time.Duration,
	test func(looks *atomic.Int64, changes chan fsnotify.Event, faults chan error),
) string {
	t.Helper()
	var logged strings.Builder
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		cfg := Config{
			What: "the policy", PollInterval: defaultPollInterval, Log: slog.New(slog.NewTextHandler(&logged, nil)),
			Check: func(context.Context) time.Duration { looks.Add(1); return again },
		}
		changes, faults := make(chan fsnotify.Event), make(chan error)
		go cfg.loop(t.Context(), changes, faults)
		wantLooks(t, &looks, 1, "at the start")
		test(&looks, changes, faults)
	})
	return logged.String()
}

func wantLooks(t *testing.T, looks *atomic.Int64, want int64, when string) {
	t.Helper()
	synctest.Wait()
	if got := looks.Load(); got != want {
		t.Errorf("%s there were %d looks, want %d", when, got, want)
	}
}

func TestAWatchWaitsUntilTheFileIsWritten(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(looks *atomic.Int64, changes chan fsnotify.Event, _ chan error) {
		for range 5 {
			changes <- fsnotify.Event{}
			<-time.After(quietTime - 1)
		}
		wantLooks(t, looks, 1, "while it is being written")
		<-time.After(2)
		wantLooks(t, looks, 2, "once it is written")
	})
}

func TestAWatchDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(looks *atomic.Int64, changes chan fsnotify.Event, _ chan error) {
		begin := time.Now()
		for time.Since(begin) < patience-quietTime {
			changes <- fsnotify.Event{}
			<-time.After(quietTime / 2)
		}
		wantLooks(t, looks, 1, "before patience ends")
		for time.Since(begin) <= patience {
			changes <- fsnotify.Event{}
			<-time.After(quietTime / 2)
		}
		wantLooks(t, looks, 2, "after patience has ended")
	})
}

func TestAWatchPolls(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(looks *atomic.Int64, changes chan fsnotify.Event, _ chan error) {
		<-time.After(defaultPollInterval - 1)
		wantLooks(t, looks, 1, "before the poll")
		<-time.After(2)
		wantLooks(t, looks, 2, "after the poll")
		<-time.After(defaultPollInterval - 3)
		changes <- fsnotify.Event{}
		<-time.After(quietTime - 1)
		wantLooks(t, looks, 2, "after a poll while it is being written")
		<-time.After(2)
		wantLooks(t, looks, 3, "once it is written")
	})
}

func TestAWatchLooksAgainWhenToldTo(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Second, func(looks *atomic.Int64, _ chan fsnotify.Event, _ chan error) {
		<-time.After(time.Second - 1)
		wantLooks(t, looks, 1, "before that")
		<-time.After(2)
		wantLooks(t, looks, 2, "after that")
	})
}

func TestAWatchOutlivesFaults(t *testing.T) {
	t.Parallel()
	logged := inBubble(t, 0, func(looks *atomic.Int64, changes chan fsnotify.Event, faults chan error) {
		faults <- errors.New("queue overflow")
		changes <- fsnotify.Event{}
		<-time.After(quietTime + 1)
		wantLooks(t, looks, 2, "after the fault")
	})
	if !strings.Contains(logged, "level=WARN") || !strings.Contains(logged, "queue overflow") {
		t.Errorf("logged %q", logged)
	}
}
