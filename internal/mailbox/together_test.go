package mailbox_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Questions that go into one script get the answers that they would get one after the other, and leave the same behind.
func TestAskedTogetherIsAsAskedInTurn(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	rapid.Check(t, func(r *rapid.T) {
		if err := client.FlushDB(t.Context()).Err(); err != nil {
			r.Fatalf("empty the database: %v", err)
		}
		c := newChoir(t, r, client)
		before := c.save()
		together := make([]mailbox.Answer, len(c.questions))
		answers, faults := c.store.TakeAll(t.Context(), c.lane, c.questions)
		for i := range answers {
			if faults[i] != nil {
				r.Fatalf("question %d: %v", i, faults[i])
			}
			together[i] = answers[i]
		}
		after := contents(t, client)
		c.restore(before)
		for i, q := range c.questions {
			inTurn, err := c.store.Take(t.Context(), q)
			if err != nil {
				r.Fatalf("question %d: %v", i, err)
			}
			if diff := cmp.Diff(inTurn, together[i], cmpopts.IgnoreFields(mailbox.Granted{}, "AskedAt")); diff != "" {
				r.Fatalf("question %d of %d, %+v (-in turn +together):\n%s", i+1, len(c.questions), q, diff)
			}
		}
		if diff := cmp.Diff(contents(t, client), after); diff != "" {
			r.Fatalf("what is left behind (-in turn +together):\n%s", diff)
		}
	})
}

// choir is a lane with a few mailboxes under different terms, and what ticks of it ask at once.
type choir struct {
	*world
	lane      int
	questions []dispatch.Question
}

func newChoir(t *testing.T, r *rapid.T, client *redis.Client) *choir {
	c := &choir{world: newWorld(t, r, client, mailbox.Terms{})}
	terms := map[string]mailbox.Terms{
		"chat":   {Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 2, Per: 3 * time.Second}, {Max: 1, Per: 20 * time.Millisecond, Kind: throttle.KindGap}}}},
		"news":   {Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Second}}, Cap: []throttle.Rule{{Max: 3, Per: time.Minute, Kind: throttle.KindCap}}}},
		"hourly": {Plan: throttle.Plan{Algorithm: throttle.FixedWindow, Rules: []throttle.Rule{{Max: 2, Per: time.Hour}}}},
		"alarm":  {Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}, BypassFrom: mailbox.BypassAll},
	}
	c.change(func(_, category string) mailbox.Terms {
		found := terms[category]
		found.MaxDefer = 24 * time.Hour
		return found
	})
	users := c.usersOf(c.lane, 3)
	for range rapid.IntRange(1, 12).Draw(r, "waiting") {
		e := mailbox.Entry{
			UserID: rapid.SampledFrom(users).Draw(r, "user"), Category: rapid.SampledFrom([]string{"chat", "news", "hourly", "alarm"}).Draw(r, "category"),
			Priority: notification.Priority(rapid.IntRange(1, 4).Draw(r, "priority")),
		}
		switch rapid.IntRange(0, 9).Draw(r, "kind") {
		case 0:
			e.ExpiresAt = c.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(r, "life")) * time.Millisecond)
		case 1:
			e.CollapseKey = "same"
		case 2:
			e.SendAt = c.now.Add(50 * time.Millisecond)
		}
		c.put(e)
	}
	for range rapid.IntRange(0, 4).Draw(r, "before") { // some windows are used, some ticks wait
		if tick, _, found := c.next(); found {
			c.ask(tick, true)
		}
	}
	c.advance(time.Duration(rapid.IntRange(0, 120).Draw(r, "pass")) * time.Millisecond)
	ticks := []dispatch.Tick{}
	for tick := range c.ticks {
		ticks = append(ticks, tick)
	}
	slices.SortFunc(ticks, func(a, b dispatch.Tick) int { return strings.Compare(a.ID, b.ID) })
	ticks = append(ticks, dispatch.Tick{ID: "unknown", Mailbox: dispatch.MailboxOf(users[0], "chat", 2)})
	for i := range rapid.IntRange(1, 2*len(ticks)).Draw(r, "questions") {
		c.questions = append(c.questions, dispatch.Question{
			Tick: rapid.SampledFrom(ticks).Draw(r, "tick"), Nonce: "together" + strconv.Itoa(i), Pulled: rapid.IntRange(0, 5).Draw(r, "pulled") > 0,
		})
	}
	return c
}

// usersOf gives n users of a lane.
func (w *world) usersOf(lane, n int) []string {
	var users []string
	for i := 0; len(users) < n; i++ {
		if user := "user-" + strconv.Itoa(i); w.store.LaneOf(user) == lane {
			users = append(users, user)
		}
	}
	return users
}

// change gives the world other terms.
func (w *world) change(terms func(userID, category string) mailbox.Terms) {
	w.t.Helper()
	store, err := mailbox.New(w.client, mailbox.Config{Lanes: 2, Terms: terms, Lease: lease, Grace: grace})
	if err != nil {
		w.t.Fatalf("new store: %v", err)
	}
	if err := store.UseClockKey(); err != nil {
		w.t.Fatalf("use the clock key: %v", err)
	}
	w.store = store
}

// save remembers what Redis holds.
func (w *world) save() map[string]string {
	w.t.Helper()
	saved := map[string]string{}
	for _, key := range w.client.Keys(w.test.Context(), "*").Val() {
		saved[key] = w.client.Dump(w.test.Context(), key).Val()
	}
	return saved
}

func (w *world) restore(saved map[string]string) {
	w.t.Helper()
	if err := w.client.FlushDB(w.test.Context()).Err(); err != nil {
		w.t.Fatalf("empty the database: %v", err)
	}
	for key, value := range saved {
		if err := w.client.Restore(w.test.Context(), key, 0, value).Err(); err != nil {
			w.t.Fatalf("restore %s: %v", key, err)
		}
	}
}

// contents of all keys.
func contents(t *testing.T, client *redis.Client) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		switch kind := client.Type(t.Context(), key).Val(); kind {
		case "hash":
			all[key] = client.HGetAll(t.Context(), key).Val()
		case "zset":
			all[key] = client.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		case "string":
			all[key] = client.Get(t.Context(), key).Val()
		default:
			t.Errorf("%s is a %s", key, kind)
		}
	}
	return all
}

// A mailbox whose keys somebody has spoilt fails alone: who asked in the same script gets answers.
func TestOneThatFailsFailsAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	lane := w.store.LaneOf("ada")
	users := w.usersOf(lane, 3)
	var questions []dispatch.Question
	for i, user := range users {
		id := w.put(mailbox.Entry{UserID: user})
		questions = append(questions, dispatch.Question{Tick: dispatch.Tick{ID: id, Mailbox: dispatch.MailboxOf(user, "chat", 2)}, Nonce: strconv.Itoa(i), Pulled: true})
	}
	spoilt := mailbox.LanePrefix(lane) + "l:chat:" + users[1]
	if err := w.client.Set(t.Context(), spoilt, "no log", 0).Err(); err != nil {
		t.Fatal(err)
	}
	answers, faults := w.store.TakeAll(t.Context(), lane, questions)
	for i := range questions {
		if i == 1 {
			if faults[i] == nil || !strings.Contains(faults[i].Error(), "WRONGTYPE") {
				t.Errorf("the spoilt one got %+v, %v", answers[i], faults[i])
			}
			continue
		}
		if faults[i] != nil || answers[i].Granted == nil || answers[i].Granted.ID != questions[i].ID {
			t.Errorf("question %d got %+v, %v", i, answers[i], faults[i])
		}
	}
	if n := w.client.ZCard(t.Context(), mailbox.LanePrefix(lane)+"e").Val(); n != 2 {
		t.Errorf("%d leases were given, want 2", n)
	}
}

// Many who ask and settle at once, of one lane: each gets what is its own.
func TestManyAtOnceEachGetTheirOwn(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}})
	const n = 400
	ids := make([]string, n)
	for i := range ids {
		ids[i] = w.put(mailbox.Entry{UserID: fmt.Sprint("user-", i)})
	}
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			box := dispatch.MailboxOf(fmt.Sprint("user-", i), "chat", 2)
			answer, err := w.store.Take(t.Context(), dispatch.Question{Tick: dispatch.Tick{ID: id, Mailbox: box}, Nonce: id, Pulled: true})
			if err != nil || answer.Granted == nil || answer.Granted.ID != id {
				t.Errorf("%s got %+v, %v", id, answer, err)
				return
			}
			g := &dispatch.Grant{Mailbox: box, Notification: &notification.Notification{ID: id}, Generation: 1}
			if i%3 == 0 {
				g.Generation = 7 // of somebody else
			}
			if settled, err := w.store.Settle(t.Context(), g, delivered); err != nil || settled.Stale != (i%3 == 0) {
				t.Errorf("%s was settled as %+v, %v", id, settled, err)
			}
		})
	}
	all.Wait()
	if total := w.total(); total.Delivered != n-(n+2)/3 || total.Attempts != n || total.Queued != 0 {
		t.Errorf("counts %+v", total)
	}
}
