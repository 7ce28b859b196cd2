package policy

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// inBubble runs a watcher's loop on virtual time, with events that the test sends.
func inBubble(t *testing.T,
	test func(w *Watcher, write func(gap string), changes chan fsnotify.Event, faults chan error),
) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(gap string) {
		text := fmt.Sprintf("version: 1\ncategories: {default: {min_gap: %s}}\n", gap)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1s")
	var logged strings.Builder
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWatcher(WatcherConfig{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if err != nil {
			t.Fatal(err)
		}
		changes, faults := make(chan fsnotify.Event), make(chan error)
		go w.loop(t.Context(), changes, faults)
		test(w, write, changes, faults)
	})
	return logged.String()
}

func wantGap(t *testing.T, w *Watcher, want time.Duration, when string) {
	t.Helper()
	synctest.Wait()
	if got := w.Current().Categories[DefaultCategory].Plan.Rules[0].Per; got != want {
		t.Errorf("%s the gap is %s, want %s", when, got, want)
	}
}

func TestLoopWaitsUntilTheFileIsWritten(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *Watcher, write func(string), changes chan fsnotify.Event, _ chan error) {
		write("2s")
		for range 5 {
			changes <- fsnotify.Event{}
			<-time.After(quietTime - 1)
		}
		wantGap(t, w, time.Second, "while it is being written")
		<-time.After(2)
		wantGap(t, w, 2*time.Second, "once it is written")
	})
}

func TestLoopDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *Watcher, write func(string), changes chan fsnotify.Event, _ chan error) {
		write("2s")
		begin := time.Now()
		for time.Since(begin) < patience-quietTime {
			changes <- fsnotify.Event{}
			<-time.After(quietTime / 2)
		}
		wantGap(t, w, time.Second, "before patience ends")
		for time.Since(begin) <= patience {
			changes <- fsnotify.Event{}
			<-time.After(quietTime / 2)
		}
		wantGap(t, w, 2*time.Second, "after patience has ended")
	})
}

func TestLoopPolls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *Watcher, write func(string), changes chan fsnotify.Event, _ chan error) {
		write("2s")
		<-time.After(defaultPollInterval - 1)
		wantGap(t, w, time.Second, "before the poll")
		<-time.After(2)
		wantGap(t, w, 2*time.Second, "after the poll")

		write("3s")
		<-time.After(defaultPollInterval - 3)
		changes <- fsnotify.Event{}
		<-time.After(quietTime - 1)
		wantGap(t, w, 2*time.Second, "after a poll while it is being written")
		<-time.After(2)
		wantGap(t, w, 3*time.Second, "once it is written")
	})
}

func TestLoopOutlivesFaultsOfTheWatch(t *testing.T) {
	t.Parallel()
	logged := inBubble(t, func(w *Watcher, write func(string), changes chan fsnotify.Event, faults chan error) {
		faults <- errors.New("queue overflow")
		write("2s")
		changes <- fsnotify.Event{}
		<-time.After(quietTime + 1)
		wantGap(t, w, 2*time.Second, "after the fault")
	})
	if !strings.Contains(logged, "level=WARN") || !strings.Contains(logged, "queue overflow") {
		t.Errorf("logged %q", logged)
	}
}
