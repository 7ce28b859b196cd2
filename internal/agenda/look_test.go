package agenda_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// What people and other processes are told of an agenda.
func TestAnAgendaLookedAt(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(3)
	later := w.accept(agenda.Entry{SendAt: start.Add(time.Hour)})
	b := dispatch.BacklogOf("ada", "chat", partitions)

	all, err := outlook.Of(w.store).UserAgenda(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	waiting := &outlook.UserAgenda{Partition: b.Partition, Waiting: []outlook.UserWaiting{
		{Category: "chat", Backlog: 2, Deferred: 2, Scheduled: 1, IDs: []string{ids[1], ids[2], later}},
	}}
	if diff := cmp.Diff(waiting, all); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	at := func(d time.Duration) throttle.Micros { return throttle.MicrosOf(start.Add(d)) }
	for i, id := range ids[1:] {
		if s := w.state(id); !s.DeliverAt.Equal(at(time.Duration(i+1)*3*time.Second).Time()) || s.Ahead != i {
			t.Errorf("%s goes at %s, after %d", id, s.DeliverAt, s.Ahead)
		}
	}
	in, err := outlook.Of(w.store).UserWindows(t.Context(), "ada", "chat")
	if err != nil || !slices.Equal(in.Admitted, []throttle.Micros{at(0)}) || !slices.Equal(in.Names, ids[:1]) ||
		len(in.Rules) != 1 || in.Rules[0].Used != 1 {
		t.Errorf("the windows are %+v, %v", in, err)
	}
	peeked, err := outlook.Of(w.store).Peek(t.Context(), b)
	if err != nil || peeked.Waiting != 2 || peeked.Deferred != 2 {
		t.Errorf("peeked: %+v, %v", peeked, err)
	}
	if s := w.state(ids[1]); s.Status != notification.StatusDeferred || s.Deferrals != 1 || len(s.History) != 1 ||
		s.History[0].Kind != "deferred" {
		t.Errorf("a deferred one: %+v", s)
	}
	if s := w.state(later); s.Status != notification.StatusScheduled || !s.DeliverAt.Equal(start.Add(time.Hour)) {
		t.Errorf("a later one: %+v", s)
	}
	windows, err := maintenance.Of(w.store).WindowsOf(t.Context(), "ada", []string{"chat"})
	if err != nil || !slices.Equal(windows.Categories["chat"], []throttle.Micros{at(0)}) || len(windows.Cap) != 0 {
		t.Errorf("windows: %+v, %v", windows, err)
	}
}

// All that waits is found, with the users whose it is; and of each notification where it stands.
func TestWhatWaitsIsFound(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(3)
	later := w.accept(agenda.Entry{SendAt: start.Add(time.Hour)})
	hers := w.accept(agenda.Entry{UserID: "eve", Category: "news"})

	waiting := map[string]string{}
	for _, page := range []int{1, 100} {
		if err := maintenance.Of(w.store).EachWaiting(t.Context(), page, func(some []maintenance.Waiting) error {
			for _, one := range some {
				waiting[one.ID] = one.UserID + "/" + one.Category
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{ids[1]: "ada/chat", ids[2]: "ada/chat", later: "ada/", hers: "eve/news"}
		if diff := cmp.Diff(want, waiting); diff != "" {
			t.Errorf("waiting (-want +got):\n%s", diff)
		}
	}
	users := map[string]bool{}
	for partition := range partitions {
		if err := outlook.Of(w.store).EachUser(t.Context(), partition, func(some []string) error {
			for _, user := range some {
				users[user] = true
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := slices.Sorted(maps.Keys(users)); !slices.Equal(got, []string{"ada", "eve"}) {
		t.Errorf("users: %v", got)
	}
	found, err := maintenance.Of(w.store).Find(t.Context(), []agenda.Entry{
		plain(ids[0]), plain(ids[1]), plain(later), plain("nobody"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]maintenance.Standing{
		{Status: notification.StatusSending, InFlight: true},
		{Status: notification.StatusQueued, InLine: true},
		{Status: notification.StatusScheduled, Later: true},
		{},
	}, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

// Awake is false for users whose wake-up is lost; not for those who are paused, or for whom nothing waits.
func TestAwake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(w *world, partition int)
		want bool
	}{
		"deferred":  {do: func(*world, int) {}, want: true},
		"task gone": {do: func(w *world, p int) { w.client.Del(w.test.Context(), queueKey(p, "t:ada")) }, want: false},
		"not in time": {do: func(w *world, p int) {
			w.client.ZAdd(w.test.Context(), keyspace.Prefix(p)+"wakeups", z(start.Add(time.Hour), "ada"))
		}, want: false},
		"unknown": {
			do:   func(w *world, p int) { w.client.ZRem(w.test.Context(), keyspace.Prefix(p)+"wakeups", "ada") },
			want: false,
		},
		"paused": {do: func(w *world, _ int) {
			paused := oncePer3s
			paused.MaxDefer, paused.Paused = time.Hour, time.Minute
			w.change(paused)
			w.serve()
		}, want: true},
		"nothing waits": {do: func(w *world, _ int) { w.drain() }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, oncePer3s)
			w.rush(2)
			partition := w.store.PartitionOf("ada")
			c.do(w, partition)
			awake, err := w.store.Awake(t.Context(), []string{"ada", "nobody"})
			if err != nil || !slices.Equal(awake, []bool{c.want, true}) {
				t.Errorf("awake: %v, %v", awake, err)
			}
		})
	}
}

// z is an entry of a sorted set.
func z(at time.Time, member string) redis.Z {
	return redis.Z{Score: float64(at.UnixMicro()), Member: member}
}

// A guarded store keeps what ends by itself until its store knows, and works on no partition that has lost its state.
func TestAGuardedStore(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	store := w.openGuarded()
	partition := w.store.PartitionOf("ada")
	accept := func(e agenda.Entry) error {
		_, err := store.Accept(t.Context(), partition, []agenda.Entry{e})
		return err
	}
	if err := accept(plain("a")); !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("without its state the partition says %v", err)
	}
	take := dispatch.TakeRequest{Partition: partition, ID: "r", Pull: 1}
	if _, err := store.Take(t.Context(), take); !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("without its state the partition serves: %v", err)
	}
	if err := beginRebuild(t.Context(), store, []int{partition}, "token"); err != nil {
		t.Fatal(err)
	}
	restored := plain("restored")
	restored.ExpiresAt, restored.Age = start.Add(time.Second), time.Minute
	entries := []agenda.Entry{restored}
	if _, err := store.RestoreEntries(t.Context(), "another", partition, entries); !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("another rebuild may restore: %v", err)
	}
	if _, err := store.RestoreEntries(t.Context(), "token", partition, []agenda.Entry{restored}); err != nil {
		t.Fatal(err)
	}
	if err := maintenance.Of(store).EndRebuild(t.Context(), "token", partition, built(2, "here")); err != nil {
		t.Fatal(err)
	}
	w.advance(2 * time.Second)
	if swept, err := store.Sweep(t.Context(), partition); err != nil || swept.Expired != 1 {
		t.Fatalf("swept %+v, %v", swept, err)
	}
	ends := func() (all []agenda.End) {
		if err := store.EachEnds(t.Context(), partition, 10, func(some []agenda.End) error {
			all = append(all, some...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := []agenda.End{{
		ID: "restored", Status: notification.StatusExpired, Reason: notification.ReasonExpired, At: w.now,
	}}
	if diff := cmp.Diff(want, ends()); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	has, err := store.HasEnd(t.Context(), partition, []string{"restored", "a"})
	if err != nil || !slices.Equal(has, []bool{true, false}) {
		t.Errorf("has ends: %v, %v", has, err)
	}
	if err := store.Acknowledge(t.Context(), partition, []string{"restored"}); err != nil {
		t.Fatal(err)
	}
	if left := ends(); len(left) != 0 {
		t.Errorf("after they are known: %+v", left)
	}
	if err := accept(plain("a")); err != nil {
		t.Errorf("with its state the partition says %v", err)
	}
	if err := w.client.Del(t.Context(), keyspace.Prefix(partition)+"epoch").Err(); err != nil {
		t.Fatal(err)
	}
	if err := accept(plain("b")); !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("after it was lost again the partition says %v", err)
	}
}
