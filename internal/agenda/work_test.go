package agenda_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// few is more than all scripts of a test end or look at together, and many twice that.
const few, many = 30 * scriptLimit, 60 * scriptLimit

// What a script does must not depend on how much of a user waits, has expired or was cancelled. The measure is the
// number of commands that it runs, not its time, so the result is the same on any machine.
func TestTheWorkOfAScriptDoesNotGrow(t *testing.T) {
	t.Parallel()
	settings := agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 2, Per: time.Hour}}}, MaxDefer: 24000 * time.Hour,
	}
	backlogs := map[string]struct {
		entry agenda.Entry
		after func(w *world, n int)
	}{
		"waiting":    {after: func(*world, int) {}},
		"deferred":   {after: func(w *world, _ int) { w.serve(); w.settle(delivered); w.settle(delivered) }},
		"with a key": {entry: agenda.Entry{CollapseKey: "%d"}, after: func(*world, int) {}},
		"due later":  {entry: agenda.Entry{SendAt: start.Add(time.Hour)}, after: func(*world, int) {}},
		"has come due": {
			entry: agenda.Entry{SendAt: start.Add(time.Second)},
			after: func(w *world, _ int) { w.advance(2 * time.Second) },
		},
		"expired": {
			entry: agenda.Entry{ExpiresAt: start.Add(time.Second)},
			after: func(w *world, _ int) { w.advance(2 * time.Second) },
		},
		"too late": {after: func(w *world, _ int) {
			w.settings[""] = agenda.Settings{Plan: settings.Plan, MaxDefer: 1}
			w.advance(time.Hour)
		}},
		"cancelled": {after: (*world).cancelMany},
	}
	for name, c := range backlogs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			measure := func(n int) []work {
				w := newWorld(t, t, redistest.Start(t).Client(t), settings)
				w.backlog(n, c.entry)
				c.after(w, n)
				return w.workOfEach(n)
			}
			wantSameWork(t, measure(few), measure(many))
		})
	}
}

func wantSameWork(t *testing.T, small, large []work) {
	t.Helper()
	ran := 0
	for i := range small {
		t.Logf("%-16s %4d commands", small[i].script, small[i].commands)
		ran += small[i].commands
		if small[i] != large[i] {
			t.Errorf("%s runs %d commands with %d and %d with %d", small[i].script, small[i].commands, few,
				large[i].commands, many)
		}
	}
	if ran == 0 {
		t.Error("nothing was measured")
	}
}

// The measure itself sees what a script does.
func TestTheWorkOfAGrowingScriptIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{})
	grows := func(n int) work {
		return w.workOf("grows", func() {
			const source = "for i = 1, tonumber(ARGV[1]) do redis.call('GET', KEYS[1]) end return 1"
			if err := w.client.Eval(t.Context(), source, []string{"key"}, n).Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
	if small, large := grows(few), grows(many); small.commands != few || large.commands != many {
		t.Errorf("%d and %d commands were seen, want %d and %d", small.commands, large.commands, few, many)
	}
}

// A rebuild does not work more for the next notifications when it has put back many before.
func TestTheWorkOfARebuildDoesNotGrow(t *testing.T) {
	t.Parallel()
	measure := func(n int) []work {
		w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{})
		store := w.openGuarded()
		const token = "token"
		partition := w.store.PartitionOf("ada")
		if err := beginRebuild(t.Context(), store, []int{partition}, token); err != nil {
			t.Fatal(err)
		}
		restore := func(from int) {
			var entries []agenda.Entry
			for i := range scriptLimit {
				entries = append(entries, plain("m"+strconv.Itoa(from+i)))
				entries[i].Arrival = int64(from + i + 1)
			}
			if _, err := store.RestoreEntries(t.Context(), token, partition, entries); err != nil {
				t.Fatal(err)
			}
		}
		for at := 0; at < n; at += scriptLimit {
			restore(at)
		}
		return []work{
			w.workOf("restore", func() { restore(n) }), w.workOf("restore again", func() { restore(0) }),
			w.workOf("restore window", func() {
				backlog := dispatch.BacklogOf("ada", "chat", partitions)
				part := agenda.WindowPart{Admitted: []agenda.Admission{{At: throttle.MicrosOf(start)}}}
				if err := store.RestoreWindow(t.Context(), token, backlog, part); err != nil {
					t.Fatal(err)
				}
			}),
		}
	}
	wantSameWork(t, measure(few), measure(many))
}

func plain(id string) agenda.Entry {
	return agenda.Entry{ID: id, UserID: "ada", Category: "chat", Priority: notification.PriorityNormal}
}

// openGuarded opens the agendas of a deployment in which another store keeps the notifications.
func (w *world) openGuarded() *agenda.Agendas {
	w.t.Helper()
	store, err := agenda.New(w.client, agenda.Config{
		Partitions: partitions, Settings: w.settingsOf, Guarded: true, Lease: lease,
	})
	if err != nil {
		w.t.Fatalf("new store: %v", err)
	}
	if err := store.UseClockKey(); err != nil {
		w.t.Fatalf("use the clock key: %v", err)
	}
	return store
}

// cancelMany cancels all but the first.
func (w *world) cancelMany(n int) {
	w.t.Helper()
	var running errgroup.Group
	running.SetLimit(16)
	for i := 10; i < n; i++ {
		running.Go(func() error {
			return w.store.CancelIn(w.test.Context(), w.store.PartitionOf("ada"), "m"+strconv.Itoa(i), "cancelled")
		})
	}
	if err := running.Wait(); err != nil {
		w.t.Fatalf("cancel: %v", err)
	}
}

// work is how many commands a script ran.
type work struct {
	script   string
	commands int
}

// workOfEach runs each script once, with n in the agenda.
func (w *world) workOfEach(n int) []work {
	ctx, partition := w.test.Context(), w.store.PartitionOf("ada")
	last := "m" + strconv.Itoa(n-1)
	must := func(err error) {
		if err != nil {
			w.t.Fatalf("with %d: %v", n, err)
		}
	}
	settle := func(o dispatch.Outcome) func() {
		return func() {
			if len(w.grants) > 0 {
				w.settle(o)
			}
		}
	}
	w.room = 2
	steps := []struct {
		script string
		do     func()
	}{
		{script: "pull", do: func() { w.round(partition, 8) }},
		{script: "take", do: func() { w.round(partition, 0) }},
		{
			script: "settle, retry",
			do: settle(dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient", Failure: true, RetryAfter: time.Minute,
			}),
		},
		{script: "settle, end", do: settle(delivered)},
		{script: "pull", do: func() { w.round(partition, 8) }},
		{script: "take, deferred", do: func() { w.round(partition, 0) }},
		{script: "accept", do: func() { w.accept(plain("next")) }},
		{
			script: "accept, urgent",
			do:     func() { w.accept(agenda.Entry{ID: "urgent", Priority: notification.PriorityCritical}) },
		},
		{script: "accept, known", do: func() { w.accept(plain(last)) }},
		{script: "sweep", do: func() { _, err := w.store.Sweep(ctx, partition); must(err) }},
		{script: "promise", do: func() { w.state(last) }},
		{script: "promise, next", do: func() { w.state("next") }},
		{
			script: "standing",
			do:     func() { _, err := maintenance.Of(w.store).Find(ctx, []agenda.Entry{plain(last)}); must(err) },
		},
		{script: "awake", do: func() { _, err := w.store.Awake(ctx, []string{"ada"}); must(err) }},
		{script: "stats", do: func() { w.total() }},
		{script: "cancel", do: func() { must(w.store.CancelIn(ctx, partition, "next", "cancelled")) }},
		{script: "clear", do: func() { must(w.store.Clear(ctx, dispatch.BacklogOf("ada", "chat", partitions))) }},
		{script: "pull, cleared", do: func() { w.round(partition, 8) }},
		{script: "take, cleared", do: func() { w.round(partition, 0) }},
	}
	var each []work
	for _, step := range steps {
		each = append(each, w.workOf(step.script, step.do))
	}
	return each
}

var commandCalls = regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=(\d+),`)

// workOf counts the commands that scripts run meanwhile on the world's server, which nobody else uses.
func (w *world) workOf(script string, do func()) work {
	w.t.Helper()
	before := w.commands()
	do()
	return work{script, w.commands() - before}
}

// commands counts those that the server ran so far, but for those that run scripts and set up connections.
func (w *world) commands() int {
	w.t.Helper()
	info, err := w.client.Info(w.test.Context(), "commandstats").Result()
	if err != nil {
		w.t.Fatalf("read the counts of commands: %v", err)
	}
	sum := 0
	for _, found := range commandCalls.FindAllStringSubmatch(info, -1) {
		name, _, _ := strings.Cut(found[1], "|")
		switch name {
		case "eval", "evalsha", "script", "info", "hello", "client", "ping":
			continue
		}
		calls, err := strconv.Atoi(found[2])
		if err != nil {
			w.t.Fatalf("read the counts of commands: %v", err)
		}
		sum += calls
	}
	return sum
}
