package desk_test

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/records"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
	"github.com/pacer-notify/pacer/test/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

const partitions = 2

// store is what the tests need of a store.
type store interface {
	dispatch.Store
	intake.Store
	desk.Store
	Cancel(ctx context.Context, id string) error
	PutDevice(ctx context.Context, d *notification.Device) error
	Deactivate(ctx context.Context, d *notification.Device, since time.Time, reason string) error
	NoteDelivery(ctx context.Context, n *notification.Notification, d notification.Delivery) error
}

// preferences keeps what users want, in the set-ups that can.
type preferences interface {
	desk.Users
	SetPreferences(ctx context.Context, userID string, p *notification.Preferences, was int64) error
}

// world is a store on real servers with a desk over it, and a worker that obeys pauses as the dispatcher does.
type world struct {
	testing.TB
	store   store
	users   preferences // nil on Redis
	control control.Store
	desk    *desk.Desk

	mu     sync.Mutex
	paused map[control.Subject]bool
	own    map[string][]throttle.Rule // by user
	// endpoints are what is said of webhook endpoints, by URL.
	endpoints map[string]string
	// fleet is what the processes report, cancelledBy who cancelled which notification.
	fleet       func() (desk.Fleet, error)
	cancelledBy map[string]string
	agendas     *agenda.Agendas
	client      *goredis.Client // nil on Postgres

	made, rounds int
	held         []heldWakeup
	granted      []*dispatch.Grant
}

type heldWakeup struct {
	dispatch.Wakeup
	partition int
	at        time.Time
}

// categories are those of the worlds' policy.
var categories = map[string]agenda.Settings{
	"brief":  {Plan: rules(throttle.Rule{Max: 1, Per: time.Hour}), MaxDefer: time.Minute},
	"drop":   {Plan: throttle.Plan{Closed: night}, MaxDefer: 24 * time.Hour, Zone: kathmandu, Drops: true},
	"free":   {MaxDefer: 24 * time.Hour},
	"gap":    {Plan: rules(throttle.Rule{Max: 1, Per: 400 * time.Millisecond}), MaxDefer: 24 * time.Hour},
	"night":  {Plan: throttle.Plan{Closed: night}, MaxDefer: 24 * time.Hour, Zone: kathmandu},
	"slow":   {Plan: rules(throttle.Rule{Max: 1, Per: time.Hour}), MaxDefer: 24 * time.Hour},
	"urgent": {Plan: rules(throttle.Rule{Max: 1, Per: time.Hour}), MaxDefer: time.Hour, BypassFrom: notification.PriorityLow},
}

// kathmandu is a time zone of quarters of an hour.
var kathmandu = time.FixedZone("Asia/Kathmandu", 20700)

// night is a time in which the category of that name is closed: now, and for the next hours.
var night = throttle.Closed{{From: 1, Until: throttle.MicrosOf(time.Now().Add(8 * time.Hour).Truncate(time.Minute))}}

func rules(all ...throttle.Rule) throttle.Plan { return throttle.Plan{Rules: all} }

// CategoryNames implements [desk.Policy].
func (w *world) CategoryNames() []string { return append(byDay(), "drop", "night") }

// byDay are the categories that have no quiet hours.
func byDay() []string { return []string{"brief", "free", "gap", "slow", "urgent"} }

// Settings implements [desk.Policy].
func (w *world) Settings(userID, category string) agenda.Settings {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := categories[category]
	if w.paused[control.Subject{Kind: control.Category, Name: category}] {
		s.Paused = 50 * time.Millisecond
	}
	if own, has := w.own[userID]; has && category == "slow" {
		s.Plan = s.Plan.WithOwnLimits(own)
	}
	return s
}

// testLease is so long that none ends on a slow machine.
const testLease = time.Hour

// onBoth runs a test in a world on Redis, and in one on Postgres.
func onBoth(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *world{"Redis": onRedis, "Postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func onRedis(t *testing.T) *world {
	t.Helper()
	w := &world{TB: t, paused: map[control.Subject]bool{}, own: map[string][]throttle.Rule{}}
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: partitions, Settings: w.Settings, Lease: testLease})
	if err != nil {
		t.Fatal(err)
	}
	w.store, w.control, w.client = redis.New(client, agendas), control.New(redis.NewRecords(client)), client
	w.open(agendas)
	return w
}

func onPostgres(t *testing.T) *world {
	t.Helper()
	w := &world{TB: t, paused: map[control.Subject]bool{}, own: map[string][]throttle.Rule{}}
	kept, agendas, pool := openPostgres(t, agenda.Config{
		Partitions: partitions, Settings: w.Settings, Lease: testLease, Guarded: true,
	})
	w.store, w.users, w.control = kept, kept, control.New(records.New(pool))
	w.open(agendas)
	return w
}

// openPostgres opens a store in a database of its own.
func openPostgres(t *testing.T, cfg agenda.Config) (*postgres.Store, *agenda.Agendas, *pgxpool.Pool) {
	t.Helper()
	url := postgrestest.URL(t)
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	agendas, err := agenda.New(redistest.Client(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	kept := postgres.New(pool, agendas, postgres.Config{
		Log: slog.New(slog.DiscardHandler), PlacePatience: time.Minute, AcceptTimeout: time.Minute,
		StatementTimeout: time.Minute, ClaimPatience: time.Minute,
	})
	t.Cleanup(func() { _ = kept.Close() })
	relay := relay.New(kept.Stores, relay.Config{
		Check:   func(*notification.Notification) error { return nil },
		Windows: func(string) time.Duration { return time.Hour },
	})
	if _, err := relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kept, agendas, pool
}

func (w *world) open(agendas *agenda.Agendas) {
	w.fleet = func() (desk.Fleet, error) { return desk.Fleet{Workers: 1}, nil }
	w.agendas = agendas
	cfg := desk.Config{
		Store: w.store, Agendas: outlook.Of(agendas), Policy: w, Pauses: w.control.Pauses,
		Fleet:       func(context.Context) (desk.Fleet, error) { return w.fleet() },
		Endpoint:    func(url string) string { return w.endpoints[url] },
		CancelledBy: func(_ context.Context, id string) (string, error) { return w.cancelledBy[id], nil },
		// What is told does not depend on how fast the machine is.
		RedisPatience: time.Minute, LookPatience: time.Minute,
	}
	if w.users != nil {
		cfg.Users = w.users
	}
	w.desk = desk.New(cfg)
}

// pause pauses something, as an operator does.
func (w *world) pause(kind control.Kind, name string) {
	w.Helper()
	subject := control.Subject{Kind: kind, Name: name}
	p := control.Pause{Subject: subject, By: "grace", Why: "maintenance", At: time.Now()}
	if err := w.control.Pause(w.Context(), p); err != nil {
		w.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused[p.Subject] = true
}

func (w *world) isPaused(kind control.Kind, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused[control.Subject{Kind: kind, Name: name}]
}

// accept makes a notification and has it accepted.
func (w *world) accept(change func(*notification.Notification)) *notification.Notification {
	w.Helper()
	w.made++
	n := &notification.Notification{
		ID: "n" + strconv.Itoa(w.made), UserID: "ada", Category: "free", Channel: notification.ChannelLog, To: "target",
		Priority: notification.PriorityNormal,
	}
	if change != nil {
		change(n)
	}
	if _, err := w.store.Accept(w.Context(), []*notification.Notification{n}); err != nil {
		w.Fatalf("accept %s: %v", n.ID, err)
	}
	return n
}

// round makes one take request for a partition, unless it is paused, and keeps the grants that it could claim.
func (w *world) round(partition int) {
	w.Helper()
	if w.isPaused(control.Partition, strconv.Itoa(partition)) {
		return
	}
	w.rounds++
	r := dispatch.TakeRequest{Partition: partition, ID: "round." + strconv.Itoa(w.rounds), Capacity: 50, Pull: 50}
	w.held = slices.DeleteFunc(w.held, func(h heldWakeup) bool {
		due := h.partition == partition && time.Until(h.at) <= 0
		if due {
			r.Wakeups = append(r.Wakeups, h.Wakeup)
		}
		return due
	})
	result, err := w.store.Take(w.Context(), r)
	if err != nil {
		w.Fatalf("take from partition %d: %v", partition, err)
	}
	served := slices.Clone(result.Served)
	for i, of := range result.Results {
		served = append(served, dispatch.ServedWakeup{Wakeup: r.Wakeups[i], WakeupResult: of})
	}
	for _, s := range served {
		if s.Held {
			h := dispatch.Wakeup{UserID: s.UserID, Generation: s.Generation, Categories: s.WakeupResult.Categories}
			w.held = append(w.held, heldWakeup{Wakeup: h, partition: partition, at: time.Now().Add(s.After)})
		}
		for _, g := range s.Grants {
			w.claim(g)
		}
	}
	for _, h := range result.Pulled {
		w.held = append(w.held, heldWakeup{Wakeup: h, partition: partition, at: time.Now()})
	}
}

// claim claims a grant. One whose channel is paused waits for its provider, as in the dispatcher.
func (w *world) claim(g *dispatch.Grant) {
	w.Helper()
	ok, err := w.store.Claim(w.Context(), g)
	switch {
	case err != nil:
		w.Fatalf("claim %s: %v", g.Notification.ID, err)
	case ok && w.isPaused(control.Channel, string(g.Notification.Channel)):
		w.settle(g, dispatch.Outcome{
			Disposition: dispatch.Retry, Reason: "throttled: paused_by_operator", Untried: true, Refund: true,
			RetryAfter: 100 * time.Millisecond,
		})
	case ok:
		w.granted = append(w.granted, g)
	}
}

func (w *world) settle(g *dispatch.Grant, o dispatch.Outcome) {
	w.Helper()
	if settled, err := w.store.Settle(w.Context(), g, o); err != nil || settled.Stale {
		w.Fatalf("settle %s: %+v, %v", g.Notification.ID, settled, err)
	}
}

// look makes two rounds of every partition: the first pulls wake-ups, the second serves them.
func (w *world) look() {
	w.Helper()
	for partition := range partitions {
		w.round(partition)
		w.round(partition)
	}
}

// until makes rounds until a condition holds; give is what becomes of each grant.
func (w *world) until(what string, give func(*dispatch.Grant) dispatch.Outcome, holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			w.Fatalf("never came: %s", what)
		}
		w.look()
		for _, g := range w.granted {
			w.settle(g, give(g))
		}
		w.granted = nil
		<-time.After(5 * time.Millisecond)
	}
}

// grant waits for a grant.
func (w *world) grant() *dispatch.Grant {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); len(w.granted) == 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatal("nothing is granted")
		}
		w.look()
	}
	g := w.granted[0]
	w.granted = w.granted[1:]
	return g
}

// user looks up a user.
func (w *world) user(id string) *desk.User {
	w.Helper()
	u, err := w.desk.User(w.Context(), id)
	if err != nil {
		w.Fatalf("look up user %s: %v", id, err)
	}
	return u
}

// category is where a user stands in a category.
func (w *world) category(u *desk.User, name string) desk.UserCategory {
	w.Helper()
	for _, c := range u.Categories {
		if c.Category == name {
			return c
		}
	}
	w.Fatalf("user %s has no category %s", u.UserID, name)
	return desk.UserCategory{}
}

// explain looks up a notification.
func (w *world) explain(id string) *desk.Explanation {
	w.Helper()
	e, err := w.desk.Explain(w.Context(), id)
	if err != nil {
		w.Fatalf("explain %s: %v", id, err)
	}
	return e
}

var (
	clock  = regexp.MustCompile(`(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(:\d\d(\.\d+)?)?Z?`)
	madeID = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}`)
	days   = regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) TIME`)
)

// anyTime is a text without the moments in it.
func anyTime(text string) string {
	return days.ReplaceAllString(clock.ReplaceAllString(text, "TIME"), "TIME")
}

// says compares a sentence with the golden file, which has the same for both stores. Moments and
// made ids are left out.
func (w *world) says(what, text string) {
	w.Helper()
	name := strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(w.Name(), "/Redis"), "/Postgres"), "Test")
	text = madeID.ReplaceAllString(anyTime(text), "ID")
	transcript.Line(w, "testdata/standings.txt", name+", "+what, text)
}

var delivered = dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}
