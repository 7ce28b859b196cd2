package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/record/postgres"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// neighbour is a user of another lane than ada's.
func neighbour(t *testing.T) string {
	t.Helper()
	for i := range 100 {
		user := fmt.Sprintf("neighbour%d", i)
		if dispatch.LaneOf(user, recordtest.Lanes) != dispatch.LaneOf("ada", recordtest.Lanes) {
			return user
		}
	}
	t.Fatal("all users have one lane")
	return ""
}

// verifyWorld holds of ada: in chat one delivered, one in flight and one in line, in free one that is scheduled; of her
// neighbour one in line. Every mailbox has its ticks in the queue.
func verifyWorld(t *testing.T) *world {
	t.Helper()
	terms := func(user, category string) mailbox.Terms {
		terms := recordtest.Terms(user, category)
		terms.Plan.Cap = []throttle.Rule{{Max: 10, Per: time.Hour, Kind: throttle.KindCap}}
		return terms
	}
	w := newWorldWith(t, redistest.Client(t), mailbox.Config{MaxCrashes: 1000, Lease: time.Hour, Terms: terms})
	ticks := w.accept(t, "ada", "chat", 3)
	w.enqueue(t, append(ticks[1:], w.accept(t, neighbour(t), "free", 1)...)...)
	w.deliver(t, ticks[0], "a")
	if w.take(t, ticks[1], "b").Grant == nil {
		t.Fatal("the second is not granted")
	}
	later := &notification.Notification{
		ID: "later", UserID: "ada", Category: "free", Channel: notification.ChannelLog, Priority: notification.PriorityNormal,
		SendAt: time.Now().Add(time.Hour),
	}
	accepted, err := w.record.Accept(t.Context(), []*notification.Notification{later})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.queue.Enqueue(t.Context(), dispatch.Alarm{Tick: accepted[0].Tick, After: accepted[0].DueIn}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) enqueue(t *testing.T, ticks ...dispatch.Tick) {
	t.Helper()
	for _, tick := range ticks {
		if err := w.queue.Enqueue(t.Context(), dispatch.Alarm{Tick: tick}); err != nil {
			t.Fatal(err)
		}
	}
}

// differences lists what a comparison finds, each as its kind and id.
func (w *world) differences(t *testing.T) []string {
	t.Helper()
	found := []string{}
	if err := w.relay.Verify(t.Context(), func(d postgres.Difference) error {
		found = append(found, d.What+" "+d.ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// Verify finds whatever is gone, however little, and goes on after it. Keys are ada's lane's, but for those of the queue.
func TestVerifyFindsEveryDifference(t *testing.T) {
	t.Parallel()
	lane := fmt.Sprint(dispatch.LaneOf("ada", recordtest.Lanes))
	for name, c := range map[string]struct {
		gone  string // key
		spoil string // statement
		want  []string
	}{
		"Nothing":           {want: []string{}},
		"Backlog":           {gone: "w:chat:ada", want: []string{"missing ada-chat-2"}},
		"Later":             {gone: "r:free:ada", want: []string{"missing later"}},
		"InFlight":          {gone: "e", want: []string{"missing ada-chat-1"}},
		"Notification":      {gone: "n:later", want: []string{"missing later"}},
		"CategoryWindow":    {gone: "l:chat:ada", want: []string{"window chat:ada"}},
		"CapWindow":         {gone: "u:ada", want: []string{"window user_cap:ada"}},
		"Epoch":             {gone: "epoch", want: []string{"epoch " + lane}},
		"TicksOfTheBacklog": {gone: "t:chat:ada", want: []string{"tick chat:ada"}},
		"TicksOfLater":      {gone: "s:free:ada", want: []string{"tick free:ada"}},
		"PendingTasks":      {gone: "asynq pending", want: []string{"tick chat:ada"}},
		"ScheduledTasks":    {gone: "asynq scheduled", want: []string{"tick free:ada"}},
		"Task":              {gone: "asynq t:later", want: []string{"tick free:ada"}},
		"Surplus": {
			spoil: "UPDATE pacer.notifications SET status = 'cancelled', ended_at = now() WHERE id IN ('ada-chat-2', 'later')",
			want:  []string{"surplus ada-chat-2", "surplus later"},
		},
		"Unknown": {spoil: "DELETE FROM pacer.notifications WHERE id = 'ada-chat-2'", want: []string{"surplus ada-chat-2"}},
		"Outbox":  {gone: "n:later", spoil: "INSERT INTO pacer.outbox (id) VALUES ('later')", want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := verifyWorld(t)
			if c.gone != "" {
				key := w.prefix() + c.gone
				if task, ok := strings.CutPrefix(c.gone, "asynq "); ok {
					key = strings.Replace(w.prefix(), "pacer:", "asynq:", 1) + task
				}
				if n, err := w.redis.Del(t.Context(), key).Result(); err != nil || n != 1 {
					t.Fatalf("%d keys %s, %v", n, key, err)
				}
			}
			if c.spoil != "" {
				w.exec(t, c.spoil)
			}
			if diff := cmp.Diff(c.want, w.differences(t)); diff != "" {
				t.Errorf("differences differ (-want +got):\n%s", diff)
			}
		})
	}
}

// A lane that has lost all that it held does not keep the others from being compared.
func TestVerifyGoesOnAfterALostLane(t *testing.T) {
	t.Parallel()
	w := verifyWorld(t)
	keys, err := w.redis.Keys(t.Context(), w.prefix()+"*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	other := neighbour(t)
	keys = append(keys, mailbox.LanePrefix(w.boxes.LaneOf(other))+"w:free:"+other)
	if err := w.redis.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"epoch " + fmt.Sprint(w.boxes.LaneOf("ada")), "missing ada-chat-1", "missing ada-chat-2", "missing later", "missing " + other + "-free-0",
		"window chat:ada", "window user_cap:ada",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, w.differences(t)); diff != "" {
		t.Errorf("differences differ (-want +got):\n%s", diff)
	}
	if _, err := w.relay.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{}, w.differences(t)); diff != "" {
		t.Errorf("after a rebuild differences differ (-want +got):\n%s", diff)
	}
}

// More than a page of everything is compared.
func TestVerifyGoesThroughAllPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	for part := range 5 {
		w.enqueue(t, w.accept(t, fmt.Sprintf("user%d", part), "free", 500)[0])
	}
	if diff := cmp.Diff([]string{}, w.differences(t)); diff != "" {
		t.Errorf("differences differ (-want +got):\n%s", diff)
	}
	w.exec(t, "UPDATE pacer.notifications SET status = 'cancelled', ended_at = now()")
	if n := len(w.differences(t)); n != 2500 {
		t.Errorf("%d differences, want 2500", n)
	}
}
