package mailbox_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// few is more than all scripts of a test end or look at together, and many twenty times that.
const few, many = 10 * scriptLimit, 200 * scriptLimit

// What a script does must not depend on how much of a user waits, has expired or was cancelled. That is judged by the commands
// that it runs, not by its time: so it holds on any machine.
func TestTheWorkOfAScriptDoesNotGrow(t *testing.T) {
	t.Parallel()
	rules := []throttle.Rule{{Max: 2, Per: time.Hour}}
	backlogs := map[string]struct {
		entry mailbox.Entry
		after func(w *world, n int)
	}{
		"waiting":       {mailbox.Entry{}, func(*world, int) {}},
		"with a key":    {mailbox.Entry{CollapseKey: "%d"}, func(*world, int) {}},
		"due later":     {mailbox.Entry{SendAt: start.Add(time.Hour)}, func(*world, int) {}},
		"has come due":  {mailbox.Entry{SendAt: start.Add(time.Second)}, func(w *world, _ int) { w.advance(2 * time.Second) }},
		"expired":       {mailbox.Entry{ExpiresAt: start.Add(time.Second)}, func(w *world, _ int) { w.advance(2 * time.Second) }},
		"too late":      {mailbox.Entry{}, func(w *world, _ int) { w.advance(25 * time.Hour) }},
		"cancelled":     {mailbox.Entry{}, (*world).cancelMany},
		"without ticks": {mailbox.Entry{}, func(w *world, _ int) { w.advance(2 * grace) }},
	}
	for name, backlog := range backlogs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			measure := func(n int) []work {
				w := newWorld(t, t, redistest.Start(t).Client(t), mailbox.Terms{Plan: throttle.Plan{Rules: rules}})
				w.backlog(n, backlog.entry)
				backlog.after(w, n)
				return w.workOfEach(n)
			}
			small, large := measure(few), measure(many)
			for i := range small {
				t.Logf("%-16s %4d commands", small[i].script, small[i].commands)
				if small[i] != large[i] {
					t.Errorf("%s runs %d commands with %d and %d with %d", small[i].script, small[i].commands, few, large[i].commands, many)
				}
			}
		})
	}
}

// Nor does what a rebuild does for the next ones depend on how many it has put back.
func TestTheWorkOfARebuildDoesNotGrow(t *testing.T) {
	t.Parallel()
	measure := func(n int) []work {
		w := newWorld(t, t, redistest.Start(t).Client(t), mailbox.Terms{})
		store, err := mailbox.New(w.client, mailbox.Config{Lanes: 2, Terms: func(string, string) mailbox.Terms { return w.terms }, Guarded: true})
		if err != nil {
			t.Fatal(err)
		}
		const token = "token"
		if err := store.BeginRebuild(t.Context(), []int{w.store.LaneOf("ada")}, token); err != nil {
			t.Fatal(err)
		}
		restore := func(from, to int) {
			var entries []mailbox.Entry
			for i := range to - from {
				entries = append(entries, plain("m"+strconv.Itoa(from+i)))
				entries[i].Arrival = start.Add(time.Duration(from+i) * time.Millisecond)
			}
			if _, err := store.RestoreEntries(t.Context(), token, w.store.LaneOf("ada"), entries); err != nil {
				t.Fatal(err)
			}
		}
		for at := 0; at < n; at += scriptLimit {
			restore(at, at+scriptLimit)
		}
		return []work{
			w.workOf("restore", func() { restore(n, n+scriptLimit) }),
			w.workOf("restore again", func() { restore(0, scriptLimit) }),
			w.workOf("restore window", func() {
				box := dispatch.MailboxOf("ada", "chat", 2)
				if err := store.RestoreWindow(t.Context(), token, box, []throttle.Micros{throttle.MicrosOf(start)}); err != nil {
					t.Fatal(err)
				}
			}),
		}
	}
	small, large := measure(few), measure(many)
	for i := range small {
		t.Logf("%-16s %4d commands", small[i].script, small[i].commands)
		if small[i] != large[i] || small[i].commands == 0 {
			t.Errorf("%s runs %d commands with %d and %d with %d", small[i].script, small[i].commands, few, large[i].commands, many)
		}
	}
}

// The measure itself sees what a script does.
func TestTheWorkOfAGrowingScriptIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t, redistest.Start(t).Client(t), mailbox.Terms{})
	grows := func(n int) work {
		return w.workOf("grows", func() {
			if err := w.client.Eval(t.Context(), "for i = 1, tonumber(ARGV[1]) do redis.call('GET', KEYS[1]) end return 1", []string{"key"}, n).Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
	if small, large := grows(few), grows(many); small.commands != few || large.commands != many {
		t.Errorf("%d and %d commands were seen, want %d and %d", small.commands, large.commands, few, many)
	}
}

func plain(id string) mailbox.Entry {
	return mailbox.Entry{ID: id, UserID: "ada", Category: "chat", Priority: notification.PriorityNormal}
}

// backlog puts n of ada into one line, each with a collapse key of its own where there is one.
func (w *world) backlog(n int, e mailbox.Entry) {
	w.t.Helper()
	for at := 0; at < n; at += scriptLimit {
		batch := make([]mailbox.Entry, scriptLimit)
		for i := range batch {
			batch[i] = e
			batch[i].ID, batch[i].UserID, batch[i].Category, batch[i].Priority = "m"+strconv.Itoa(at+i), "ada", "chat", notification.PriorityNormal
			if e.CollapseKey != "" {
				batch[i].CollapseKey = fmt.Sprintf(e.CollapseKey, at+i)
			}
		}
		if _, err := w.store.Put(w.test.Context(), w.store.LaneOf("ada"), batch); err != nil {
			w.t.Fatalf("put: %v", err)
		}
	}
}

// cancelMany cancels all but a few at the head.
func (w *world) cancelMany(n int) {
	w.t.Helper()
	var running errgroup.Group
	running.SetLimit(16)
	for i := 10; i < n; i++ {
		running.Go(func() error {
			return w.store.CancelIn(w.test.Context(), w.store.LaneOf("ada"), "m"+strconv.Itoa(i), "cancelled")
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

// workOfEach runs each script once, with n in the mailbox.
func (w *world) workOfEach(n int) []work {
	ctx, box, lane := w.test.Context(), dispatch.MailboxOf("ada", "chat", 2), w.store.LaneOf("ada")
	last := "m" + strconv.Itoa(n-1)
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatalf("%v", err)
		}
	}
	steps := []struct {
		script string
		do     func()
	}{
		{"sweep", func() {
			_, err := w.store.Sweep(ctx, lane)
			must(err)
		}},
		{"take", func() { w.ask(tickOf("m0"), true) }},
		{"extend", func() {
			if len(w.grants) > 0 {
				must(w.store.Extend(ctx, w.grants[0]))
			}
		}},
		{"settle, again", func() {
			if len(w.grants) > 0 {
				w.settle(dispatch.Outcome{Fate: dispatch.Retry, Reason: "transient", Failure: true, RetryAfter: time.Minute})
			}
		}},
		{"take", func() { w.ask(tickOf("m1"), true) }},
		{"settle, end", func() {
			if len(w.grants) > 0 {
				w.settle(dispatch.Outcome{Fate: dispatch.Delivered, Reason: "delivered"})
			}
		}},
		{"take, deferred", func() { w.ask(tickOf("m2"), true) }},
		{"put", func() { w.put(plain("next")) }},
		{"put, known", func() { w.put(plain(last)) }},
		{"view", func() { w.state(last) }},
		{"view, next", func() { w.state("next") }},
		{"standing", func() {
			_, err := w.store.Find(ctx, lane, []mailbox.Entry{plain(last)})
			must(err)
		}},
		{"awake", func() {
			_, err := w.store.Awake(ctx, lane, []dispatch.Mailbox{box})
			must(err)
		}},
		{"cancel", func() { must(w.store.CancelIn(ctx, lane, "next", "cancelled")) }},
		{"clear", func() {
			_, err := w.store.Clear(ctx, box)
			must(err)
		}},
		{"take, cleared", func() { w.ask(tickOf("m3"), true) }},
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
