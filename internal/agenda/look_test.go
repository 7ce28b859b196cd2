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

	all, err := w.store.UserAgenda(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	waiting := &agenda.UserAgenda{Partition: b.Partition, Waiting: []agenda.UserWaiting{
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
	in, err := w.store.UserWindows(t.Context(), "ada", "chat")
	if err != nil || !slices.Equal(in.Admitted, []throttle.Micros{at(0)}) || !slices.Equal(in.Names, ids[:1]) ||
		len(in.Rules) != 1 || in.Rules[0].Used != 1 {
		t.Errorf("the windows are %+v, %v", in, err)
	}
	if peeked, err := w.store.Peek(t.Context(), b); err != nil || peeked.Waiting != 2 || peeked.Deferred != 2 {
		t.Errorf("peeked: %+v, %v", peeked, err)
	}
	if s := w.state(ids[1]); s.Status != notification.StatusDeferred || s.Deferrals != 1 || len(s.History) != 1 ||
		s.History[0].Kind != "deferred" {
		t.Errorf("a deferred one: %+v", s)
	}
	if s := w.state(later); s.Status != notification.StatusScheduled || !s.DeliverAt.Equal(start.Add(time.Hour)) {
		t.Errorf("a later one: %+v", s)
	}
	windows, err := w.store.WindowsOf(t.Context(), "ada", []string{"chat"})
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
	partition := w.store.PartitionOf("ada")

	waiting := map[string]string{}
	for _, page := range []int{1, 100} {
		if err := w.store.EachWaiting(t.Context(), page, func(some []agenda.Waiting) error {
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
		if err := w.store.EachUser(t.Context(), partition, func(some []string) error {
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
	found, err := w.store.Find(t.Context(), partition, []agenda.Entry{
		plain(ids[0]), plain(ids[1]), plain(later), plain("nobody"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agenda.Standing{
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
			w.client.ZAdd(w.test.Context(), agenda.PartitionPrefix(p)+"wakeups", z(start.Add(time.Hour), "ada"))
		}, want: false},
		"unknown": {
			do:   func(w *world, p int) { w.client.ZRem(w.test.Context(), agenda.PartitionPrefix(p)+"wakeups", "ada") },
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
			awake, err := w.store.Awake(t.Context(), partition, []string{"ada", "nobody"})
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
	if err := accept(plain("a")); !errors.Is(err, agenda.ErrLost) {
		t.Errorf("without its state the partition says %v", err)
	}
	take := dispatch.TakeRequest{Partition: partition, ID: "r", Pull: 1}
	if _, err := store.Take(t.Context(), take); !errors.Is(err, agenda.ErrLost) {
		t.Errorf("without its state the partition serves: %v", err)
	}
	if err := store.BeginRebuild(t.Context(), []int{partition}, "token"); err != nil {
		t.Fatal(err)
	}
	restored := plain("restored")
	restored.ExpiresAt, restored.Arrival = start.Add(time.Second), start.Add(-time.Minute)
	entries := []agenda.Entry{restored}
	if _, err := store.RestoreEntries(t.Context(), "another", partition, entries); !errors.Is(err, agenda.ErrLost) {
		t.Errorf("another rebuild may restore: %v", err)
	}
	if _, err := store.RestoreEntries(t.Context(), "token", partition, []agenda.Entry{restored}); err != nil {
		t.Fatal(err)
	}
	if err := store.EndRebuild(t.Context(), "token", partition, agenda.Built{Epoch: agenda.NewEpoch(2, "here")}); err != nil {
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
	if err := w.client.Del(t.Context(), agenda.PartitionPrefix(partition)+"epoch").Err(); err != nil {
		t.Fatal(err)
	}
	if err := accept(plain("b")); !errors.Is(err, agenda.ErrLost) {
		t.Errorf("after it was lost again the partition says %v", err)
	}
}

// Under a cap over categories what waits goes by priority, then arrival, and whoever asks is told so: how many of the
// user's go before, and when it goes.
func TestOrderUnderACapIsTold(t *testing.T) {
	t.Parallel()
	twoPerSecond := throttle.Rule{Max: 2, Per: time.Second, Kind: throttle.KindCap}
	w := setup(t, agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{twoPerSecond}}})
	cases := []struct {
		name, category string
		priority       notification.Priority
		place          int
	}{
		{name: "first of chat", category: "chat", priority: notification.PriorityNormal, place: 2},
		{name: "first of news", category: "news", priority: notification.PriorityNormal, place: 3},
		{name: "chat of low priority", category: "chat", priority: notification.PriorityLow, place: 7},
		{name: "first of mail", category: "mail", priority: notification.PriorityNormal, place: 4},
		{name: "news of high priority", category: "news", priority: notification.PriorityHigh, place: 0},
		{name: "second of news", category: "news", priority: notification.PriorityNormal, place: 5},
		{name: "second of chat", category: "chat", priority: notification.PriorityNormal, place: 6},
		{name: "mail of high priority", category: "mail", priority: notification.PriorityHigh, place: 1},
	}
	var ids []string
	for _, c := range cases {
		ids = append(ids, w.accept(agenda.Entry{Category: c.category, Priority: c.priority}))
	}
	for i, c := range cases {
		s := w.state(ids[i]) // now, before anything goes out
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := start.Add(time.Duration(c.place/2) * time.Second)
			if s.Ahead != c.place || !s.DeliverAt.Equal(want) {
				t.Errorf("%s: %d go before it, out at %s; want %d, %s", ids[i], s.Ahead, s.DeliverAt, c.place, want)
			}
		})
	}
	w.serve()
	told := map[string]*agenda.State{}
	for _, id := range ids {
		told[id] = w.state(id)
	}
	for len(w.grants) > 0 {
		w.settle(delivered)
	}
	for i, g := range w.drain() {
		if s := told[g.Notification.ID]; s.Ahead != i || !s.DeliverAt.Equal(g.AdmittedAt) ||
			s.Reason != "user_cap 2/1s" {
			t.Errorf("%s goes as number %d at %s; told was %d, %s, %s", g.Notification.ID, i, g.AdmittedAt, s.Ahead,
				s.DeliverAt, s.Reason)
		}
	}
}

// Two of four an hour are kept for the urgent: two wait that are not, and an urgent one that comes later goes at once.
func TestTheUrgentGoWhileOthersWait(t *testing.T) {
	t.Parallel()
	kept := throttle.Rule{Max: 4, Per: time.Hour, Reserve: throttle.Reserve{0, 2}}
	w := setup(t, agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{kept}}})
	for range 4 {
		w.accept(agenda.Entry{})
	}
	w.serve()
	if len(w.grants) != 2 {
		t.Fatalf("%d of four go at once, want the two that are left for them", len(w.grants))
	}
	for len(w.grants) > 0 {
		w.settle(delivered)
	}
	urgent := w.accept(agenda.Entry{Priority: notification.PriorityHigh})
	if s := w.state(urgent); s.Status != notification.StatusQueued || !s.DeliverAt.Equal(w.now) {
		t.Errorf("the urgent one is %s until %s", s.Status, s.DeliverAt)
	}
	if s := w.state("n3"); s.Status != notification.StatusDeferred || s.DeliverAt.Before(start.Add(time.Hour)) {
		t.Errorf("one that is not is %s until %s", s.Status, s.DeliverAt)
	}
	w.serve()
	if len(w.grants) != 1 || w.grants[0].Notification.ID != urgent {
		t.Fatalf("granted: %v, want %s alone", w.grants, urgent)
	}
	if total := w.total(); total.Deferred != 2 || total.Totals.Deferrals != 2 {
		t.Errorf("%d are deferred after %d deferrals, want the two others", total.Deferred, total.Totals.Deferrals)
	}
}

// What waits for its own category's limit does not keep others from the cap, though it came first.
func TestWhatItsCategoryHoldsIsNotAhead(t *testing.T) {
	t.Parallel()
	limit := throttle.Rule{Max: 2, Per: time.Second, Kind: throttle.KindCap}
	w := setup(t, agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{limit}}})
	w.settings["slow"] = agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}, limit}}, MaxDefer: 24 * time.Hour,
	}
	for range 3 {
		w.accept(agenda.Entry{Category: "slow"})
	}
	w.accept(agenda.Entry{})
	w.serve() // one of slow, one of chat
	for len(w.grants) > 0 {
		w.settle(delivered)
	}
	var ids []string
	for range 3 {
		ids = append(ids, w.accept(agenda.Entry{}))
	}
	for i, id := range ids {
		want := start.Add(time.Duration(1+i/2) * time.Second)
		if s := w.state(id); s.Ahead != i || !s.DeliverAt.Equal(want) {
			t.Errorf("%s: %d go before it, out at %s; want %d, %s", id, s.Ahead, s.DeliverAt, i, want)
		}
	}
}
