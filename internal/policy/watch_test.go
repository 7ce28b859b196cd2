package policy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/policy"
)

// gapText is a policy with a minimum gap, by which the tests recognise it.
func gapText(gap time.Duration) string {
	return fmt.Sprintf("version: 1\ncategories:\n  default:\n    min_gap: %s\n", gap)
}

func gapOf(t *testing.T, p *policy.Policy) time.Duration {
	t.Helper()
	c, ok := p.Category(policy.DefaultCategory)
	if !ok || len(c.Plan.Rules) != 1 {
		t.Fatalf("not a policy of this test: %+v", p)
	}
	return c.Plan.Rules[0].Per
}

// lines passes the log on, line by line.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// watched is a policy file under watch.
type watched struct {
	*policy.Watcher
	changed chan *policy.Policy
	logged  lines
}

// watch starts a watcher of the file and ends it with the test.
func watch(t *testing.T, path string, poll time.Duration) *watched {
	t.Helper()
	w := &watched{changed: make(chan *policy.Policy, 100), logged: make(lines, 100)}
	var err error
	w.Watcher, err = policy.NewWatcher(policy.WatcherConfig{
		Path:         path,
		Logger:       slog.New(slog.NewJSONHandler(w.logged, nil)),
		PollInterval: poll,
		OnChange:     func(p *policy.Policy) { w.changed <- p },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

const never = 24 * time.Hour

// receive takes a value from a channel. It fails the test when none comes for a long time.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("waited a minute for %s", what)
		panic("unreachable")
	}
}

func (w *watched) wantGap(t *testing.T, want time.Duration) {
	t.Helper()
	p := receive(t, w.changed, "a change of the policy")
	if got := gapOf(t, p); got != want {
		t.Fatalf("the policy has a gap of %s, want %s", got, want)
	}
	w.wantLine(t, `"policy reloaded"`)
	if w.Current() != p {
		t.Fatal("the current policy is not the one that was announced")
	}
}

// wantLine waits for a log line with all the parts. It ignores other lines before that, because the first reading may
// have found the file half written.
func (w *watched) wantLine(t *testing.T, parts ...string) {
	t.Helper()
	for {
		line := receive(t, w.logged, fmt.Sprintf("a log line with %q", parts))
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func policyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, path, gapText(time.Second))
	return path
}

func TestWatcherFollowsTheFile(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, path string){
		"written in place": func(t *testing.T, path string) {
			write(t, path, gapText(2*time.Second))
		},
		"replaced by rename": func(t *testing.T, path string) {
			write(t, path+".new", gapText(2*time.Second))
			do(t, os.Rename(path+".new", path))
		},
		"removed and made anew": func(t *testing.T, path string) {
			do(t, os.Remove(path))
			write(t, path, gapText(2*time.Second))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := policyFile(t)
			w := watch(t, path, never)
			if got := gapOf(t, w.Current()); got != time.Second {
				t.Fatalf("begins with a gap of %s", got)
			}
			change(t, path)
			w.wantGap(t, 2*time.Second)
			write(t, path, gapText(3*time.Second)) // the watch outlives the change
			w.wantGap(t, 3*time.Second)
		})
	}
}

// Kubernetes shows a ConfigMap as links to a directory that it replaces as a whole.
func TestWatcherFollowsAConfigMap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	publish := func(version string, gap time.Duration) {
		do(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "policy.yaml"), gapText(gap))
		do(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	publish("..1", time.Second)
	path := filepath.Join(dir, "policy.yaml")
	do(t, os.Symlink(filepath.Join("..data", "policy.yaml"), path))
	w := watch(t, path, never)

	publish("..2", 2*time.Second)
	do(t, os.RemoveAll(filepath.Join(dir, "..1")))
	w.wantGap(t, 2*time.Second)
	publish("..3", 3*time.Second)
	w.wantGap(t, 3*time.Second)
}

// A change of a link further up the path causes no event in the file's directory.
func TestWatcherFindsAChangeWithoutAnEvent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, release := range []string{"one", "two"} {
		do(t, os.Mkdir(filepath.Join(dir, release), 0o700))
		write(t, filepath.Join(dir, release, "policy.yaml"), gapText(time.Duration(i+1)*time.Second))
	}
	current := filepath.Join(dir, "current")
	do(t, os.Symlink("one", current))
	w := watch(t, filepath.Join(current, "policy.yaml"), time.Millisecond)

	do(t, os.Symlink("two", current+".new"), os.Rename(current+".new", current))
	w.wantGap(t, 2*time.Second)
}

func TestWatcherKeepsThePolicyWhenTheFileIsFaulty(t *testing.T) {
	t.Parallel()
	path := policyFile(t)
	w := watch(t, path, never)
	before := w.Current()

	write(t, path, "version: 1\n")
	w.wantLine(t, `"level":"ERROR"`, "keeping the policy in force", path+":1:1: categories: is missing")
	if w.Current() != before {
		t.Error("the faulty file replaced the policy")
	}

	write(t, path, gapText(time.Second)) // as at first
	w.wantLine(t, "policy file is correct again")
	write(t, path, gapText(2*time.Second))
	w.wantGap(t, 2*time.Second)
	if n := len(w.changed); n != 0 {
		t.Errorf("%d more changes were announced than made", n)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	path := policyFile(t)
	changes := 0
	logged := make(lines, 100)
	w, err := policy.NewWatcher(policy.WatcherConfig{
		Path: path, Logger: slog.New(slog.NewTextHandler(logged, nil)), OnChange: func(*policy.Policy) { changes++ },
	})
	do(t, err)
	if w.Name() != path {
		t.Errorf("named %q", w.Name())
	}

	if err := w.Reload(t.Context()); err != nil || changes != 0 {
		t.Errorf("the same file again: %v, %d changes", err, changes)
	}
	write(t, path, gapText(2*time.Second))
	if err := w.Reload(t.Context()); err != nil || changes != 1 || gapOf(t, w.Current()) != 2*time.Second {
		t.Errorf("another file: %v, %d changes, gap %s", err, changes, gapOf(t, w.Current()))
	}
	if diff := cmp.Diff(gapText(2*time.Second), w.Current().Text); diff != "" {
		t.Errorf("the policy's text differs from the file (-want +got):\n%s", diff)
	}
	good := w.Current()
	write(t, path, "version: 1\n")
	for range 2 {
		if _, ok := errors.AsType[*policy.Fault](w.Reload(t.Context())); !ok || w.Current() != good {
			t.Errorf("faulty file: no fault, or the policy is %+v", w.Current())
		}
	}
	do(t, os.Remove(path))
	if err := w.Reload(t.Context()); !errors.Is(err, fs.ErrNotExist) || w.Current() != good {
		t.Errorf("no file: %v, policy %+v", err, w.Current())
	}
	if changes != 1 || len(logged) != 0 {
		t.Errorf("%d changes, %d lines logged beside the errors returned", changes, len(logged))
	}
}

// The version of the text that was refused is told, also when another text has the same fault; none when nothing could
// be read.
func TestTheRefusedVersionIsTold(t *testing.T) {
	t.Parallel()
	path := policyFile(t)
	w, err := policy.NewWatcher(policy.WatcherConfig{Path: path})
	do(t, err)
	good, began := w.InForce(), time.Time{}
	for i, c := range []struct {
		change  func()
		fault   string
		version string
	}{
		{func() { write(t, path, "version: 1\n") }, "is missing", policy.VersionOf("version: 1\n")},
		{func() { write(t, path, "version: 1 # \n") }, "is missing", policy.VersionOf("version: 1 # \n")},
		{func() { do(t, os.Remove(path)) }, "can't be read", ""},
		{func() { write(t, path, gapText(time.Second)) }, "", ""}, // as at first
	} {
		c.change()
		err := w.Reload(t.Context())
		in := w.InForce()
		if in.RefusedVersion != c.version || !strings.Contains(in.Refused, c.fault) || (c.fault == "") != (err == nil) {
			t.Errorf("step %d: version %q is refused: %q, %v", i, in.RefusedVersion, in.Refused, err)
		}
		switch {
		case i == 0:
			began = in.RefusedAt
		case i == 1 && !in.RefusedAt.Equal(began):
			t.Errorf("the same fault began at %s, and at %s", began, in.RefusedAt)
		}
	}
	if w.InForce() != good {
		t.Errorf("the policy in force is %+v, want %+v", w.InForce(), good)
	}
}

func TestReloadReadsNoMoreThanAPolicyMayHave(t *testing.T) {
	t.Parallel()
	path := policyFile(t)
	w, err := policy.NewWatcher(policy.WatcherConfig{Path: path})
	do(t, err, os.Truncate(path, 1<<40)) // a sparse file of a terabyte
	if err := w.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "more than the 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestBuiltInPolicyNeverChanges(t *testing.T) {
	t.Parallel()
	w := watch(t, "", time.Millisecond)
	do(t, w.Reload(t.Context()))
	if diff := cmp.Diff(policy.Default(), w.Current()); diff != "" {
		t.Errorf("not the built-in policy (-want +got):\n%s", diff)
	}
	if w.Name() != policy.BuiltIn {
		t.Errorf("named %q", w.Name())
	}
}

func TestNewWatcherRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	faulty := filepath.Join(dir, "faulty.yaml")
	write(t, faulty, "version: 1\n")
	for path, want := range map[string]string{
		filepath.Join(dir, "missing.yaml"): "the policy file " + filepath.Join(dir, "missing.yaml") + " can't be read",
		dir:                                "the policy file " + dir + " can't be read",
		faulty:                             faulty + ":1:1: categories: is missing",
	} {
		_, err := policy.NewWatcher(policy.WatcherConfig{Path: path})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

// Readers see a whole policy at any moment, and every change is announced once, in order.
func TestWatcherUnderConcurrency(t *testing.T) {
	t.Parallel()
	path := policyFile(t)
	w := watch(t, path, time.Millisecond)
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if p := w.Current(); p.Text != gapText(gapOf(t, p)) {
					t.Error("a policy and its text do not belong together")
					return
				}
			}
		})
	}
	for i := range 50 {
		write(t, path+".new", gapText(time.Duration(i+2)*time.Second))
		do(t, os.Rename(path+".new", path), w.Reload(t.Context()))
	}
	close(stop)
	group.Wait()
	for i := range 50 {
		if got, want := gapOf(t, receive(t, w.changed, "a change")), time.Duration(i+2)*time.Second; got != want {
			t.Fatalf("change %d announces a gap of %s, want %s", i, got, want)
		}
	}
	if n := len(w.changed); n != 0 {
		t.Errorf("%d changes too many", n)
	}
}

// Hours that can't be right leave those in force as they are, like every other fault; the log names the line.
func TestBadHoursKeepThePolicy(t *testing.T) {
	t.Parallel()
	const good = "version: 1\nwindows: {night: {closed: [{from: \"22:00\", to: \"08:00\"}]}}\n" +
		"quiet_hours: {window: night}\ncategories: {default: {min_gap: 1s}}\n"
	path := policyFile(t)
	write(t, path, good)
	w := watch(t, path, never)
	before := w.Current()
	write(t, path, strings.Replace(good, "window: night", "window: nigth", 1))
	w.wantLine(t, ":3:23: quiet_hours.window", "did you mean night?")
	if w.Current() != before || before.QuietHours == nil || !strings.Contains(w.InForce().Refused, "nigth") {
		t.Errorf("the policy in force is %+v, refused %q", w.Current(), w.InForce().Refused)
	}
	write(t, path, strings.Replace(good, "min_gap: 1s", "min_gap: 2s", 1))
	w.wantGap(t, 2*time.Second)
	if w.Current().QuietHours == nil || w.InForce().Refused != "" {
		t.Errorf("the policy in force is %+v, refused %q", w.Current(), w.InForce().Refused)
	}
}
