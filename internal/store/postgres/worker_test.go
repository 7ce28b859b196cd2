package postgres_test

import (
	"errors"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/storetest"
)

// delivered is the outcome of a delivery that went well.
var delivered = dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}

// serve makes one take request, with an id of its own.
func (w *world) serve(t *testing.T, r dispatch.TakeRequest) dispatch.TakeResult {
	t.Helper()
	w.rounds++
	r.ID = "round" + strconv.Itoa(w.rounds)
	reply, err := w.store.Take(t.Context(), r)
	if errors.Is(err, dispatch.ErrLost) { // what the partition gave out means nothing any more
		maps.DeleteFunc(w.held,
			func(user string, _ dispatch.Wakeup) bool { return w.agendas.PartitionOf(user) == r.Partition })
		return dispatch.TakeResult{Results: make([]dispatch.WakeupResult, len(r.Wakeups))}
	}
	if err != nil {
		t.Fatalf("serve partition %d: %v", r.Partition, err)
	}
	for i, taken := range reply.Results {
		user := r.Wakeups[i].UserID
		delete(w.held, user)
		if taken.Held {
			w.held[user] = dispatch.Wakeup{
				UserID: user, Generation: r.Wakeups[i].Generation, Categories: taken.Categories,
			}
		}
	}
	w.pulled += len(reply.Pulled)
	for _, pulled := range reply.Pulled {
		w.held[pulled.UserID] = pulled
	}
	return reply
}

// pull takes all pending wake-ups of a partition off the queue.
func (w *world) pull(t *testing.T, partition int) {
	t.Helper()
	w.serve(t, dispatch.TakeRequest{Partition: partition, Pull: 1000})
}

// ask pulls wake-ups, and serves the user's if there is one, with capacity for so many deliveries.
func (w *world) ask(t *testing.T, user string, room int) dispatch.WakeupResult {
	t.Helper()
	partition := w.agendas.PartitionOf(user)
	w.pull(t, partition)
	wakeup, held := w.held[user]
	if !held {
		return dispatch.WakeupResult{}
	}
	return w.serve(t, dispatch.TakeRequest{
		Partition: partition, Wakeups: []dispatch.Wakeup{wakeup}, Capacity: room,
	}).Results[0]
}

// claim claims a grant. It returns false when the claim was declined.
func (w *world) claim(t *testing.T, g *dispatch.Grant) bool {
	t.Helper()
	ok, err := w.store.Claim(t.Context(), g)
	if err != nil {
		t.Fatalf("claim %s: %v", g.Notification.ID, err)
	}
	return ok
}

// take grants and claims a user's next notification. It returns nil when none may go, or when its claim was declined.
func (w *world) take(t *testing.T, user string) *dispatch.Grant {
	t.Helper()
	for _, g := range w.ask(t, user, 1).Grants {
		if w.claim(t, g) {
			return g
		}
	}
	return nil
}

// deliver delivers a user's next notification, and returns its id.
func (w *world) deliver(t *testing.T, user string) string {
	t.Helper()
	g := w.take(t, user)
	if g == nil {
		t.Fatalf("nothing of %s is granted", user)
	}
	w.settle(t, g, delivered)
	return g.Notification.ID
}

func (w *world) settle(t *testing.T, g *dispatch.Grant, o dispatch.Outcome) dispatch.Settlement {
	t.Helper()
	s, err := w.store.Settle(t.Context(), g, o)
	if err != nil {
		t.Fatalf("settle %s: %v", g.Notification.ID, err)
	}
	return s
}

// deliverAll serves the wake-ups that come, and delivers what they grant, until nothing more may go. It returns the ids
// in the order of their deliveries.
func (w *world) deliverAll(t *testing.T) []string {
	t.Helper()
	var all []string
	for idle := 0; idle < 2; idle++ { // a wake-up that did not know of a category comes again
		granted := 0
		for partition := range storetest.Partitions {
			ids, n := w.deliverIn(t, partition)
			all, granted = append(all, ids...), granted+n
		}
		if granted > 0 {
			idle = -1
		}
	}
	return all
}

// deliverIn makes a round of a partition with all wake-ups that are pending or held, and delivers what it grants. It
// returns how many grants there were, those included whose claims were declined.
func (w *world) deliverIn(t *testing.T, partition int) (ids []string, granted int) {
	t.Helper()
	w.pull(t, partition)
	r := dispatch.TakeRequest{Partition: partition, Capacity: 100}
	for _, wakeup := range w.held {
		if w.agendas.PartitionOf(wakeup.UserID) == partition {
			r.Wakeups = append(r.Wakeups, wakeup)
		}
	}
	for _, taken := range w.serve(t, r).Results {
		for _, g := range taken.Grants {
			granted++
			if w.claim(t, g) {
				w.settle(t, g, delivered)
				ids = append(ids, g.Notification.ID)
			}
		}
	}
	return ids, granted
}

// wantAwake wants each user to have a wake-up that comes in time for what waits.
func (w *world) wantAwake(t *testing.T, users ...string) {
	t.Helper()
	for _, user := range users {
		awake, err := w.agendas.Awake(t.Context(), []string{user})
		if err != nil || !awake[0] {
			t.Errorf("no wake-up of %s comes in time for what waits, %v", user, err)
		}
	}
}

// wakesIn returns how far ahead the moment of a user's wake-up is.
func (w *world) wakesIn(t *testing.T, user string) time.Duration {
	t.Helper()
	at, err := w.redis.ZScore(t.Context(), w.prefixOf(user)+"wakeups", user).Result()
	if err != nil {
		t.Fatalf("no wake-up of %s stands: %v", user, err)
	}
	now, err := w.agendas.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMicro(int64(at)).Sub(now)
}

// inBacklogs is how many notifications wait in the backlogs of the partitions that can be read.
func (w *world) inBacklogs(t *testing.T) int {
	t.Helper()
	counts, err := outlook.Of(w.agendas).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(counts.Queued + counts.Deferred)
}

// An attempt may take longer than its claim holds: the claim is extended, which is what counts when Redis is lost
// meanwhile. It is not once somebody else has the notification.
func TestAClaimIsExtended(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.acceptOne(t, notification.Notification{ID: "long"})
	first := w.take(t, "ada")
	lapse := func() {
		w.exec(t, "UPDATE pacer.notifications SET claimed_until = clock_timestamp() - interval '1 second'")
	}
	wantHeld := func(what string, want bool) {
		t.Helper()
		var held bool
		if err := w.pool.QueryRow(t.Context(), "SELECT claimed_until > clock_timestamp() FROM pacer.notifications").
			Scan(&held); err != nil || held != want {
			t.Errorf("%s the claim holds: %t, %v; want %t", what, held, err, want)
		}
	}
	lapse()
	if err := w.store.Extend(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	wantHeld("once it is extended", true)
	w.flush(t)
	lapse()
	if err := w.store.Extend(t.Context(), first); err == nil {
		t.Error("the lease is extended in a Redis that has lost everything")
	}
	wantHeld("while Redis is lost", true)
	lapse()
	another := *first
	another.Claimed++
	_ = w.store.Extend(t.Context(), &another)
	wantHeld("after another worker's extension", false)
}
