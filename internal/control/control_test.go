package control_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

// Every store keeps the same.
func TestStores(t *testing.T) {
	t.Parallel()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) {
		store := control.New(s)
		keeps(t, store)
		keepsJobs(t, store)
		keepsWhoWasCleared(t, store)
	})
}

func keeps(t *testing.T, store control.Store) {
	fcm, partition := control.Subject{Kind: control.Channel, Name: "fcm"}, control.Subject{Kind: control.Partition, Name: "3"}
	ctx := t.Context()
	for _, p := range []control.Pause{
		{Subject: partition, By: "ada"},
		{Subject: fcm, By: "ada", Why: "first"},
		{Subject: fcm, By: "ben", Why: "second"},
	} {
		if err := store.Pause(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	pauses, err := store.Pauses(ctx)
	if err != nil || len(pauses) != 2 || pauses[0].Subject != fcm || pauses[0].By != "ben" ||
		pauses[0].Why != "second" || pauses[1].Subject != partition {
		t.Fatalf("paused is %+v, %v", pauses, err)
	}
	if age := time.Since(pauses[0].At); age < -time.Minute || age > time.Minute {
		t.Errorf("it was paused %s ago", age)
	}
	for _, want := range []bool{true, false} {
		if was, err := store.Resume(ctx, fcm); was != want || err != nil {
			t.Errorf("resumed is %t, %v", was, err)
		}
	}
	if pauses, err := store.Pauses(ctx); err != nil || len(pauses) != 1 {
		t.Errorf("then paused is %+v, %v", pauses, err)
	}
	for _, action := range []string{"pause", "resume", "cancel"} {
		if err := store.Note(ctx, control.Entry{By: "ada", Action: action, Subject: "n1", Detail: "why"}); err != nil {
			t.Fatal(err)
		}
	}
	trail, err := store.Audit(ctx, 2)
	if err != nil || len(trail) != 2 || trail[0].Action != "cancel" || trail[1].Action != "resume" ||
		trail[0].By != "ada" || trail[0].Detail != "why" {
		t.Errorf("the trail is %+v, %v", trail, err)
	}
}

// keepsWhoWasCleared: whose windows were cleared is known for long, whatever else the audit log has since then.
func keepsWhoWasCleared(t *testing.T, store control.Store) {
	before := time.Now().Add(-time.Minute) // the database has a clock of its own
	note := func(action, subject string) {
		t.Helper()
		if err := store.Note(t.Context(), control.Entry{By: "API", Action: action, Subject: subject}); err != nil {
			t.Fatal(err)
		}
	}
	note(control.Cleared, "ada")
	note(control.Cleared, "ben")
	for range 1000 {
		note("cancel", "n1")
	}
	note(control.Cleared, "ben")
	if trail, err := store.Audit(t.Context(), 1); err != nil || len(trail) != 1 || trail[0].Subject != "ben" {
		t.Errorf("the latest entry is %+v, %v", trail, err)
	}
	for since, want := range map[time.Time][]string{
		before: {"ada", "ben"}, time.Now().Add(time.Minute): nil,
	} {
		cleared, err := store.ClearedSince(t.Context(), since)
		if got := slices.Sorted(maps.Keys(cleared)); err != nil || !slices.Equal(got, want) {
			t.Errorf("since %s were cleared %v, %v; want %v", since, got, err, want)
		}
	}
}

// keepsJobs: a job is added once, changes one after the other, and is forgotten when many newer ones have come.
func keepsJobs(t *testing.T, store control.Store) {
	ctx := t.Context()
	add := func(j control.Job) {
		t.Helper()
		if err := store.AddJob(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	add(control.Job{ID: "running", Status: control.JobRunning, Counted: 3})
	add(control.Job{ID: "running", Status: control.JobRunning, Counted: 5})
	if _, err := store.ChangeJob(ctx, "running", func(j *control.Job, now time.Time) error {
		j.Done, j.HeldUntil = j.Done+1, now.Add(time.Hour)
		return nil
	}); err != nil {
		t.Error(err)
	}
	if _, err := store.ChangeJob(ctx, "unknown", func(*control.Job, time.Time) error { return nil }); !errors.Is(err,
		control.ErrNoJob) {
		t.Errorf("an unknown job: %v", err)
	}
	jobs, err := store.Jobs(ctx)
	if err != nil || len(jobs) != 1 || jobs[0].Done != 1 || jobs[0].Counted != 3 ||
		time.Until(jobs[0].HeldUntil) < 50*time.Minute || time.Since(jobs[0].At).Abs() > time.Minute {
		t.Fatalf("the jobs are %+v, %v", jobs, err)
	}
	for i := range 110 {
		add(control.Job{ID: strconv.Itoa(i), Status: control.JobDone})
	}
	jobs, err = store.Jobs(ctx)
	has := func(id string) bool {
		return slices.ContainsFunc(jobs, func(j control.Job) bool { return j.ID == id })
	}
	if err != nil || len(jobs) > 103 || jobs[0].ID != "109" || has("0") || !has("running") {
		t.Errorf("%d jobs are kept, the newest %s, %v", len(jobs), jobs[0].ID, err)
	}
}

// memory is a store in which a test writes what is paused.
type memory struct {
	control.Store
	mu     sync.Mutex
	pauses []control.Pause
	away   error
}

// Told implements [control.Store].
func (m *memory) Told(context.Context) ([]control.Pause, control.Events, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pauses, control.Events{}, m.away
}

func (m *memory) set(away error, pauses ...control.Pause) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
	if away == nil {
		m.pauses = pauses
	}
}

// queues are those of the partitions of a deployment, as far as the follower sees them.
type queues struct {
	mu      sync.Mutex
	stopped map[string]bool // by pacer
	outside map[string]bool
	away    map[string]bool
	looks   int
}

// Reconcile implements [control.Queues].
func (q *queues) Reconcile(_ context.Context, partitions int, shouldPause func(int) bool) (
	states []queue.State, err error,
) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looks++
	for number := range partitions {
		partition := strconv.Itoa(number)
		if q.away[partition] {
			err = errors.New("partition " + partition + " is away")
			continue
		}
		if q.stopped[partition] = shouldPause(number); q.stopped[partition] {
			q.outside[partition] = false
		}
		states = append(states, queue.State{Partition: number, Outside: q.outside[partition], Since: time.Now()})
	}
	return states, err
}

func (q *queues) set(change func(*queues)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q)
}

func (q *queues) are(stopped ...string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for partition, is := range q.stopped {
		if is != slices.Contains(stopped, partition) {
			return false
		}
	}
	return true
}

// following runs a follower until the test's end; passes lets it look again.
func following(
	t *testing.T, store control.Store, log *strings.Builder,
) (f *control.Follower, q *queues, passes func()) {
	t.Helper()
	q = &queues{stopped: map[string]bool{}, outside: map[string]bool{}, away: map[string]bool{}}
	follower := control.NewFollower(store, q, 4, slog.New(slog.NewTextHandler(log, nil)))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); follower.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return follower, q, func() {
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
	}
}

func pauseOf(kind control.Kind, name string) control.Pause {
	return control.Pause{Subject: control.Subject{Kind: kind, Name: name}, At: time.Now(), By: "ada", Why: "spam"}
}

// A process follows within a second, keeps what it knew while the store is away, and stops the queues of partitions.
func TestFollower(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := &memory{}
		f, partitions, passes := following(t, store, &log)
		passes()
		store.set(nil, pauseOf(control.Category, "chat"), pauseOf(control.Partition, "3"))
		passes()
		wait := f.Wait(control.Category, "chat")
		if wait < time.Second || wait > 3*time.Second || f.Wait(control.Category, "news") != 0 ||
			f.Wait(control.Channel, "chat") != 0 {
			t.Errorf("what is paused waits %s", wait)
		}
		if !partitions.are("3") {
			t.Errorf("the queues are %v", partitions.stopped)
		}
		store.set(errors.New("away"))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if wait := f.Wait(control.Category, "chat"); wait < 15*time.Second || wait > 45*time.Second {
			t.Errorf("after ten minutes it waits %s", wait)
		}
		store.set(nil)
		passes()
		if wait := f.Wait(control.Category, "chat"); wait != 0 || !partitions.are() {
			t.Errorf("once it is resumed it waits %s, and the queues are %v", wait, partitions.stopped)
		}
		for _, want := range []string{
			`msg="deliveries are paused" kind=category name=chat by=ada why=spam`,
			`msg="deliveries are resumed" kind=partition name=3`,
		} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log does not say %q once: %s", want, &log)
			}
		}
	})
}

// Whatever fails at the moment of pausing or resuming, a later look puts it right, in both directions; a partition
// that is away keeps no other from it.
func TestFollowerReconcilesAtEachLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := &memory{}
		_, partitions, passes := following(t, store, &log)
		passes()
		for range 2 {
			partitions.set(func(q *queues) { q.away["3"] = true })
			store.set(nil, pauseOf(control.Partition, "2"), pauseOf(control.Partition, "3"))
			passes()
			if !partitions.are("2") {
				t.Errorf("while partition 3 is away the queues are %v", partitions.stopped)
			}
			partitions.set(func(q *queues) { q.away["3"] = false })
			passes()
			if !partitions.are("2", "3") {
				t.Errorf("then the queues are %v", partitions.stopped)
			}
			partitions.set(func(q *queues) { q.away["3"] = true })
			store.set(nil)
			passes()
			partitions.set(func(q *queues) { q.away["3"] = false })
			passes()
			if !partitions.are() {
				t.Errorf("once they are resumed the queues are %v", partitions.stopped)
			}
		}
		partitions.set(func(q *queues) { q.stopped["1"] = true }) // what a process left that died while it resumed
		passes()
		if !partitions.are() {
			t.Errorf("after a process died the queues are %v", partitions.stopped)
		}
	})
}

// A partition that is paused past pacer is seen, is not undone, and is known to rest while it can't be asked.
func TestFollowerSeesPausesFromOutside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := &memory{}
		f, partitions, passes := following(t, store, &log)
		partitions.set(func(q *queues) { q.outside["2"] = true })
		passes()
		seen := func(when string, want bool) {
			t.Helper()
			pauses := f.FromOutside()
			if (len(pauses) == 1 && pauses[0].Subject == control.Subject{Kind: control.Partition, Name: "2"} &&
				pauses[0].By == control.Outside) != want ||
				(f.Wait(control.Partition, "2") > 0) != want || (len(f.Paused()) == 1) != want {
				t.Errorf("%s: from outside are %+v, in all %v", when, pauses, f.Paused())
			}
		}
		seen("it is paused", true)
		partitions.set(func(q *queues) { q.away["2"], q.outside["2"] = true, false })
		passes()
		seen("it is away", true)
		store.set(nil, pauseOf(control.Partition, "2"))
		passes()
		if len(f.Paused()) != 1 || len(f.FromOutside()) != 0 {
			t.Errorf("it is paused by both: %v, of them from outside %v", f.Paused(), f.FromOutside())
		}
		store.set(nil)
		partitions.set(func(q *queues) { q.away["2"] = false })
		passes()
		seen("it goes on", false)
		for _, want := range []string{`msg="deliveries are paused" kind=partition name=2 by="asynq's tools"`} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log does not say %q once: %s", want, &log)
			}
		}
	})
}

// slow is a store that replies with what was true when it was asked, once it is let go.
type slow struct {
	*memory
	asked, reply chan struct{}
}

// Told implements [control.Store].
func (s *slow) Told(ctx context.Context) ([]control.Pause, control.Events, error) {
	pauses, events, err := s.memory.Told(ctx)
	s.asked <- struct{}{}
	<-s.reply
	return pauses, events, err
}

// A reply that comes late does not undo what a later look found.
func TestFollowerLooksOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slow{memory: &memory{}, asked: make(chan struct{}, 9), reply: make(chan struct{})}
		partitions := &queues{stopped: map[string]bool{}, outside: map[string]bool{}}
		f := control.NewFollower(store, partitions, 4, slog.New(slog.DiscardHandler))
		var looks sync.WaitGroup
		look := func() {
			if err := f.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		}
		looks.Go(look)
		<-store.asked
		store.set(nil, pauseOf(control.Category, "chat")) // the first look has read the store already
		looks.Go(look)
		synctest.Wait()
		close(store.reply)
		looks.Wait()
		if f.Wait(control.Category, "chat") == 0 {
			t.Error("the pause that the later look found is gone")
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	names := func(control.Kind) []string { return []string{"fcm", "log"} }
	for name, c := range map[string]struct {
		subject control.Subject
		want    string
	}{
		"known channel": {subject: control.Subject{Kind: control.Channel, Name: "log"}},
		"unknown kind":  {subject: control.Subject{Kind: "user", Name: "log"}, want: `can't pause a "user"`},
		"unknown channel": {
			subject: control.Subject{Kind: control.Channel, Name: "pigeon"},
			want:    "there is no channel pigeon: it must be",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := control.Check(c.subject, names)
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v: %v, want %q", c.subject, err, c.want)
			}
		})
	}
}
