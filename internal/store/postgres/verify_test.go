package postgres_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// neighbour is a user of another partition than ada's.
func neighbour(t *testing.T) string {
	t.Helper()
	for i := range 100 {
		user := fmt.Sprintf("neighbour%d", i)
		if dispatch.PartitionOf(user, storetest.Partitions) != dispatch.PartitionOf("ada", storetest.Partitions) {
			return user
		}
	}
	t.Fatal("all users have one partition")
	return ""
}

// verifyWorld holds for ada one delivered, one in flight and one waiting notification in chat, and one scheduled in
// free; for her neighbour one that waits. Her wake-up is scheduled, the neighbour's is pending.
func verifyWorld(t *testing.T) *world {
	t.Helper()
	settings := func(user, category string) agenda.Settings {
		settings := storetest.Settings(user, category)
		for _, c := range []throttle.Rule{
			{Kind: throttle.KindCap},
			{Kind: throttle.KindNamed, Cap: "both"},
			{Kind: throttle.KindNamed, Cap: "push", Channels: "log apns"},
		} {
			c.Max, c.Per = 10, time.Hour
			settings.Plan.Rules = append(settings.Plan.Rules, c)
		}
		return settings
	}
	w := newWorldWith(t, redistest.Client(t), agenda.Config{MaxCrashes: 1000, Lease: time.Hour, Settings: settings})
	w.accept(t, "ada", "chat", 3)
	w.accept(t, neighbour(t), "free", 1)
	w.deliver(t, "ada")
	if w.take(t, "ada") == nil {
		t.Fatal("the second is not granted")
	}
	later := &notification.Notification{
		ID: "later", UserID: "ada", Category: "free", Channel: notification.ChannelLog,
		Priority: notification.PriorityNormal,
		SendAt:   time.Now().Add(time.Hour),
	}
	if _, err := w.store.Accept(t.Context(), []*notification.Notification{later}); err != nil {
		t.Fatal(err)
	}
	if taken := w.ask(t, "ada", 1); len(taken.Grants) > 0 || taken.Held {
		t.Fatalf("the wake-up is not scheduled: %+v", taken)
	}
	w.wantNothingLeft(t) // while a row says that something is on its way to Redis, it is not missed there
	return w
}

// differences lists what a comparison finds, each as its kind and id.
func (w *world) differences(t *testing.T) []string {
	t.Helper()
	found := []string{}
	if err := w.relay.Verify(t.Context(), func(d rebuild.Difference) error {
		found = append(found, d.What+" "+d.ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// Verify finds whatever is gone, however little, and goes on after it; what can be built again then is. The keys are
// those of ada's partition or of its queue.
func TestVerifyFindsEveryDifference(t *testing.T) {
	t.Parallel()
	partition, other := fmt.Sprint(dispatch.PartitionOf("ada", storetest.Partitions)), neighbour(t)
	for name, c := range map[string]struct {
		gone, member string // key; its member, if only that is gone
		of           string // user in whose partition; ada when empty
		late         bool   // the wake-up comes an hour later
		spoil        string // statement
		want         []string
	}{
		"Nothing":       {},
		"Backlog":       {gone: "w:chat:ada", want: []string{"missing ada-chat-2"}},
		"Later":         {gone: "r:ada", want: []string{"missing later"}},
		"InFlight":      {gone: "e", want: []string{"missing ada-chat-1"}},
		"Notification":  {gone: "n:later", want: []string{"missing later"}},
		"Window":        {gone: "l:chat:ada", want: []string{"window chat:ada"}},
		"Admission":     {gone: "l:chat:ada", member: "ada-chat-0#1", want: []string{"window chat:ada"}},
		"Sending":       {gone: "l:chat:ada", member: "ada-chat-1#1", want: []string{"window chat:ada"}},
		"InTheUserCap":  {gone: "u:ada", member: "ada-chat-0#1", want: []string{"window user_cap:ada"}},
		"InANamedCap":   {gone: "cap:both:ada", member: "ada-chat-0#1", want: []string{"window cap both:ada"}},
		"InAChannelCap": {gone: "cap:push:ada", member: "ada-chat-1#1", want: []string{"window cap push:ada"}},
		"Epoch":         {gone: "epoch", want: []string{"epoch " + partition}},
		"Agenda":        {gone: "a:ada", want: []string{"missing ada-chat-2"}},
		"Wakeups":       {gone: "wakeups", want: []string{"wake-up ada"}},
		"Late":          {late: true, want: []string{"wake-up ada"}},
		"Scheduled":     {gone: "asynq scheduled", want: []string{"wake-up ada"}},
		"Task":          {gone: "asynq t:ada", want: []string{"wake-up ada"}},
		"Pending":       {gone: "asynq pending", of: other, want: []string{"wake-up " + other}},
		"PendingTask":   {gone: "asynq t:" + other, of: other, want: []string{"wake-up " + other}},
		"Surplus": {
			spoil: `UPDATE pacer.notifications SET status = 'cancelled', ended_at = now()
				WHERE id IN ('ada-chat-2', 'later')`,
			want: []string{"surplus ada-chat-2", "surplus later"},
		},
		"Unknown": {
			spoil: "DELETE FROM pacer.notifications WHERE id = 'ada-chat-2'", want: []string{"surplus ada-chat-2"},
		},
		"Unplaced": {
			gone: "n:later", spoil: "INSERT INTO pacer.outbox (key, ids) VALUES ('a later one', '{later}')",
		},
		"Unchecked": {
			gone: "n:later", spoil: "INSERT INTO pacer.outbox (key, ids, unchecked) VALUES ('later', '{later}', true)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := verifyWorld(t)
			prefix := w.prefixOf(cmp.Or(c.of, "ada"))
			key := prefix + c.gone
			if task, ok := strings.CutPrefix(c.gone, "asynq "); ok {
				key = strings.Replace(prefix, "pacer:", "asynq:", 1) + task
			}
			n, err := int64(1), error(nil)
			switch {
			case c.late: // it is as good as none
				err = w.redis.ZIncrBy(t.Context(), prefix+"wakeups", float64(time.Hour.Microseconds()), "ada").Err()
			case c.member != "":
				n, err = w.redis.ZRem(t.Context(), key, c.member).Result()
			case c.gone != "":
				n, err = w.redis.Del(t.Context(), key).Result()
			}
			if err != nil || n != 1 {
				t.Fatalf("%d removed of %s, %v", n, key, err)
			}
			if c.spoil != "" {
				w.exec(t, c.spoil)
			}
			w.wantDifferences(t, c.want...)
			if c.spoil != "" {
				return
			}
			if _, err := w.relay.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.wantDifferences(t)
		})
	}
}

func (w *world) wantDifferences(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := gocmp.Diff(append([]string{}, want...), w.differences(t)); diff != "" {
		t.Errorf("differences differ (-want +got):\n%s", diff)
	}
}

// A partition that has lost everything does not keep the others from being compared.
func TestVerifyGoesOnAfterALostPartition(t *testing.T) {
	t.Parallel()
	w := verifyWorld(t)
	keys, err := w.redis.Keys(t.Context(), w.prefix()+"*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	other := neighbour(t)
	keys = append(keys, keyspace.Prefix(w.agendas.PartitionOf(other))+"w:free:"+other)
	if err := w.redis.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"epoch " + fmt.Sprint(w.agendas.PartitionOf("ada")), "missing ada-chat-1", "missing ada-chat-2",
		"missing later", "missing " + other + "-free-0",
		"window chat:ada", "window user_cap:ada", "window cap both:ada", "window cap push:ada",
	}
	w.wantDifferences(t, want...)
	if _, err := w.relay.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantDifferences(t)
}

// Verify compares more than one page of everything.
func TestVerifyGoesThroughAllPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	for part := range 5 {
		w.accept(t, fmt.Sprintf("user%d", part), "free", 500)
	}
	w.wantDifferences(t)
	w.exec(t, "UPDATE pacer.notifications SET status = 'cancelled', ended_at = now()")
	if n := len(w.differences(t)); n != 2500 {
		t.Errorf("%d differences, want 2500", n)
	}
}
