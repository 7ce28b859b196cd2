package postgres_test

import (
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// The names of two categories begin alike, for longer than anybody would cut one off.
const (
	europe = "newsletter-of-the-marketing-team-europe"
	africa = "newsletter-of-the-marketing-team-africa"
)

// limitsWorld has limits of every kind that counts in a log: chat three a day, in a day that began 22 hours ago; the
// cap "both" four in 24 hours over chat and the newsletters, the cap "push" two an hour over what goes by fcm, and the
// user's cap.
func limitsWorld(t *testing.T) *world {
	t.Helper()
	var days throttle.Boundaries
	for i := range 8 {
		days[throttle.Day-1] = append(days[throttle.Day-1],
			throttle.MicrosOf(time.Now()).Add(time.Duration(24*i-22)*time.Hour))
	}
	rules := []throttle.Rule{
		{Max: 10, Per: 24 * time.Hour, Kind: throttle.KindCap},
		{Max: 4, Per: 24 * time.Hour, Kind: throttle.KindNamed, Cap: "both"},
		{Max: 2, Per: time.Hour, Kind: throttle.KindNamed, Cap: "push", Channels: "fcm"},
	}
	w := newWorldWith(t, redistest.Client(t), agenda.Config{
		MaxCrashes: 1000, Lease: time.Hour,
		Settings: func(_, category string) agenda.Settings {
			plan := throttle.Plan{Rules: rules, Boundaries: days}
			if category == "chat" {
				perDay := throttle.Rule{Max: 3, Per: throttle.Day.Longest(), Period: throttle.Day}
				plan.Rules = slices.Concat([]throttle.Rule{perDay}, rules)
			}
			return agenda.Settings{MaxDefer: 48 * time.Hour, Plan: plan}
		},
	})
	w.relay = relay.New(w.store.Stores, relay.Config{
		Check:   func(*notification.Notification) error { return nil },
		Windows: func(string) time.Duration { return throttle.Day.Longest() },
	})
	return w
}

func (w *world) acceptOn(t *testing.T, channel notification.Channel, user, category, id string) {
	t.Helper()
	n := notification.Notification{
		ID: id, UserID: user, Category: category, Channel: channel, To: "somewhere",
		Priority: notification.PriorityNormal,
	}
	if _, err := w.store.Accept(t.Context(), []*notification.Notification{&n}); err != nil {
		t.Fatal(err)
	}
}

// logs are the moments in every log of a user, by its key.
func (w *world) logs(t *testing.T, user string) map[string][]int64 {
	t.Helper()
	all := map[string][]int64{}
	for _, kind := range []string{"l:*:" + user, "u:" + user, "cap:*:" + user} {
		keys, err := w.redis.Keys(t.Context(), w.prefixOf(user)+kind).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			entries, err := w.redis.ZRangeWithScores(t.Context(), key, 0, -1).Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Score > 0 {
					all[key] = append(all[key], int64(e.Score))
				}
			}
		}
	}
	return all
}

// lose removes what Redis holds of ada's partition, or everything.
func (w *world) lose(t *testing.T, all bool) {
	t.Helper()
	if all {
		w.flush(t)
		return
	}
	keys, err := w.redis.Keys(t.Context(), w.prefix()+"*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	if err := w.redis.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
}

// Whether all of Redis is lost or a partition: after the rebuild every log of the user's caps, named caps and calendar
// limits holds what it held, so that nothing more goes than would have gone.
func TestRebuildBringsBackEveryLimit(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]bool{"All": true, "Partition": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := limitsWorld(t)
			w.acceptOn(t, "fcm", "ada", europe, "e1")
			w.acceptOn(t, "email", "ada", africa, "a1")
			w.acceptOn(t, "fcm", "ada", "chat", "c1")
			if taken := w.ask(t, "ada", 100); len(taken.Grants) != 3 {
				t.Fatalf("granted in one round: %+v", taken)
			} else {
				for _, g := range taken.Grants { // the last stays under way
					if w.claim(t, g); g != taken.Grants[2] {
						w.settle(t, g, delivered)
					}
				}
			}
			before := w.logs(t, "ada")
			if len(before) != 4 {
				t.Fatalf("logs before the loss: %v", before)
			}
			w.lose(t, all)
			if rebuilt, err := w.relay.RebuildLost(t.Context()); err != nil || len(rebuilt.Partitions) == 0 {
				t.Fatalf("rebuilt %+v, %v", rebuilt, err)
			}
			if diff := gocmp.Diff(before, w.logs(t, "ada")); diff != "" {
				t.Errorf("the logs are not as before (-before +now):\n%s", diff)
			}
			w.acceptOn(t, "fcm", "ada", africa, "a2")   // push is full
			w.acceptOn(t, "email", "ada", europe, "e2") // the fourth of both
			w.acceptOn(t, "email", "ada", europe, "e3") // the fifth
			w.acceptOn(t, "email", "ada", "chat", "c2")
			if got := w.deliverAll(t); !slices.Equal(got, []string{"e2"}) {
				t.Errorf("after the rebuild went %v, want what the caps let pass: e2", got)
			}
			w.wantDifferences(t)
		})
	}
}

// An operator has cleared the windows of a category, and with them those of the user cap and of the category's named
// caps. A rebuild leaves them cleared, those of the other categories full, and verifying finds nothing.
func TestRebuildKeepsWhatWasCleared(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		category string
		logs     int
	}{
		"OfTheLimit": {category: "chat", logs: 3}, "OfCapsOnly": {category: europe, logs: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := limitsWorld(t)
			w.acceptOn(t, "fcm", "ada", "chat", "c1")
			w.acceptOn(t, "email", "ada", "chat", "c2")
			w.deliverAll(t)
			w.acceptOn(t, "fcm", "ada", africa, "a1")
			if w.take(t, "ada") == nil { // it stays under way
				t.Fatal("a1 is not granted")
			}
			if err := w.store.NoteCleared(t.Context(), "ada", c.category); err != nil {
				t.Fatal(err)
			}
			w.clear(t, "ada", c.category)
			w.acceptOn(t, "fcm", "ada", europe, "e1")
			if got := w.deliverAll(t); !slices.Equal(got, []string{"e1"}) {
				t.Fatalf("after the clear went %v, want e1", got)
			}
			before := w.logs(t, "ada")
			if len(before) != c.logs {
				t.Fatalf("logs before the loss: %v", before)
			}
			w.wantDifferences(t)
			w.lose(t, true)
			if _, err := w.relay.RebuildLost(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(before, w.logs(t, "ada")); diff != "" {
				t.Errorf("the logs are not as before (-before +now):\n%s", diff)
			}
			w.wantDifferences(t)
		})
	}
}

// A counter counts after a rebuild what was admitted since the clear.
func TestRebuildKeepsAClearedCounter(t *testing.T) {
	t.Parallel()
	rules := []throttle.Rule{
		{Max: 3, Per: time.Hour},
		{Max: 100, Per: time.Hour, Kind: throttle.KindCap},
	}
	w := newWorldWith(t, redistest.Client(t), agenda.Config{
		MaxCrashes: 1000,
		Settings: func(string, string) agenda.Settings {
			return agenda.Settings{
				MaxDefer: 48 * time.Hour, Plan: throttle.Plan{Algorithm: throttle.TokenBucket, Rules: rules},
			}
		},
	})
	w.accept(t, "ada", "chat", 5)
	w.deliverAll(t)
	if err := w.store.NoteCleared(t.Context(), "ada", "other"); err != nil { // the user cap's, not the category's
		t.Fatal(err)
	}
	w.flush(t)
	if _, err := w.relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.deliverAll(t); len(got) > 0 {
		t.Fatalf("%v went in spite of the limit", got)
	}
	if err := w.store.NoteCleared(t.Context(), "ada", "chat"); err != nil {
		t.Fatal(err)
	}
	w.clear(t, "ada", "chat")
	if got := w.deliverAll(t); len(got) != 2 {
		t.Fatalf("after the clear went %v, want two", got)
	}
	w.flush(t)
	if _, err := w.relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.acceptOn(t, "log", "ada", "chat", "third")
	w.acceptOn(t, "log", "ada", "chat", "fourth")
	if got := w.deliverAll(t); !slices.Equal(got, []string{"third"}) {
		t.Errorf("after the rebuild went %v, want the third since the clear", got)
	}
}

// A limit of the calendar counts after a rebuild what went since its period began, and no more; and a window that
// reaches further back counts that too.
func TestRebuildKnowsPeriods(t *testing.T) {
	t.Parallel()
	for ago, want := range map[string][]string{
		"21 hours": {},     // three went today
		"23 hours": {"n3"}, // three went yesterday, four may go in 24 hours
		"25 hours": {"n3", "n4", "n5"},
	} {
		t.Run(ago, func(t *testing.T) {
			t.Parallel()
			w := limitsWorld(t)
			for _, id := range []string{"n0", "n1", "n2", "n3", "n4", "n5"} {
				w.acceptOn(t, "email", "ada", "chat", id)
			}
			if got := w.deliverAll(t); !slices.Equal(got, []string{"n0", "n1", "n2"}) {
				t.Fatalf("went %v, want three", got)
			}
			w.exec(t, `UPDATE pacer.attempts SET admitted_at = admitted_at
				- (extract(epoch FROM $1::text::interval) * 1000000)::bigint`, ago)
			w.lose(t, true)
			if _, err := w.relay.RebuildLost(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.wantDifferences(t)
			if got := w.deliverAll(t); !slices.Equal(got, want) {
				t.Errorf("went %v, want %v", got, want)
			}
		})
	}
}

// What a limit still counts is kept, however short the retention: a rebuild has it from nowhere else.
func TestPurgeKeepsWhatALimitCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window time.Duration
		kept   int
	}{{window: 40 * 24 * time.Hour, kept: 2}, {window: 24 * time.Hour}} {
		t.Run(c.window.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Client(t))
			w.accept(t, "ada", "free", 1)
			w.deliver(t, "ada")
			w.exec(t, `UPDATE pacer.notifications SET accepted_at = now() - interval '31 days',
				ended_at = now() - interval '31 days'`)
			w.exec(t, `INSERT INTO pacer.attempts
					(notification_id, generation, attempt, user_id, category, admitted_at, ended_at, outcome)
				VALUES ('~free:ada:1', 1, 1, 'ada', 'free', 1, now() - interval '31 days', 'imported')`)
			relay := relay.New(w.store.Stores, relay.Config{
				Check:   func(*notification.Notification) error { return nil },
				Windows: func(string) time.Duration { return c.window },
			})
			if err := relay.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
			var attempts int
			if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.attempts").Scan(&attempts); err != nil ||
				attempts != c.kept {
				t.Errorf("%d attempts are kept, %v; want %d", attempts, err, c.kept)
			}
		})
	}
}
