package agenda_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/simulate"
	"github.com/pacer-notify/pacer/test/redistest"
)

// simulatedPolicy has a bit of everything.
const simulatedPolicy = `version: 1
time_zone: Europe/Vienna
user_cap: {limits: [{max: 12, per: 10m}]}
caps:
  - {name: push, categories: [chat, news], channels: [fcm], limits: [{max: 3, per: 2h}]}
windows: {night: {closed: [{days: [mon, tue, wed, thu, fri, sat, sun], from: "22:00", to: "07:00"}]}}
quiet_hours: {window: night, spread: 5m}
categories:
  default: {limits: [{max: 5, per: 1m}]}
  chat: {limits: [{max: 4, per: 1m, reserve: {high: 1}}], min_gap: 2s, max_defer: 1d}
  news: {limits: [{max: 2, per: day}], max_defer: 3d}
  alarm: {bypass: true}
  sale: {limits: [{max: 1, per: 30s}], max_defer: 5m, quiet_hours: {then: drop}}
  bucket: {algorithm: token_bucket, limits: [{max: 3, per: 5m}], min_gap: 10s, max_defer: 1d}
  fixed: {algorithm: fixed_window, limits: [{max: 2, per: 10m}], min_gap: 1s, max_defer: 1h}
`

// What is simulated goes when it goes on Redis, and ends in the same way.
func TestSimulatedIsAsPlayed(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("policy.yaml", []byte(simulatedPolicy))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, t, redistest.Client(t), agenda.Settings{})
	w.now = time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC) // clocks are switched two days later
	rules := effective.New(func() *policy.Policy { return p })
	rules.Now = func() time.Time { return w.now }
	played := map[string]time.Time{}
	play := func(until time.Time) {
		for hour := w.now; hour.Before(until); {
			for _, name := range rules.CategoryNames() {
				w.settings[name] = rules.Settings("", name)
			}
			if hour = hour.Add(time.Hour); hour.After(until) {
				hour = until
			}
			for _, g := range w.playUntil(hour) {
				played[g.Notification.ID] = g.AdmittedAt
			}
			w.advance(hour.Sub(w.now))
		}
	}
	seed := cmp.Or(*replayed, rand.Uint64())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	arrivals, ids := randomArrivals(random, w.now), []string(nil)
	var expiries []time.Time
	playAndExpire := func(until time.Time) {
		for ; len(expiries) > 0 && expiries[0].Before(until); expiries = expiries[1:] {
			play(expiries[0])
			w.sweep()
		}
		play(until)
	}
	for _, a := range arrivals {
		playAndExpire(a.At)
		expiries = append(expiries, cmp.Or(a.ExpiresAt, w.now)) // it may look at any moment
		slices.SortFunc(expiries, time.Time.Compare)
		priority, _ := notification.ParsePriority(a.Priority)
		ids = append(ids, w.accept(agenda.Entry{
			UserID: a.UserID, Category: a.Category, Priority: priority, SendAt: a.SendAt, ExpiresAt: a.ExpiresAt,
			CollapseKey: a.CollapseKey, Payload: agenda.OnChannel(notification.Channel(a.Channel)),
		}))
	}
	playAndExpire(w.now.AddDate(0, 0, 7))
	s := simulate.New(p)
	ended := 0
	s.Ended = func(n *player.Note, _ time.Time) {
		ended++
		number, _ := strconv.Atoi(n.ID)
		id := ids[number-1]
		at, went := played[id]
		if simulated := n.Status == notification.StatusDelivered; simulated != went ||
			went && n.Admitted.Time().Sub(at).Abs() > 20*time.Millisecond {
			t.Errorf("%s of %+v is %s at %s, was admitted at %s (%t)", id, arrivals[number-1], n.Status, n.Admitted.Time(), at,
				went)
		}
		if status := w.state(id).Status; status != n.Status {
			t.Errorf("%s is %s (%s), was %s: %+v", id, n.Status, n.Reason, status, w.state(id))
		}
	}
	for i := range arrivals {
		if err := arrivals[i].Check(s.Categories()); err != nil {
			t.Fatal(err)
		}
		s.Arrive(&arrivals[i])
	}
	if report := s.Finish(); ended != len(arrivals) || report.All.Deferred == 0 || len(report.All.Ended) < 2 {
		t.Errorf("%d of %d have ended: %+v", ended, len(arrivals), report.All)
	}
}

// randomArrivals are some days of arrivals of a few users, in bursts.
func randomArrivals(r *rand.Rand, at time.Time) (all []simulate.Arrival) {
	for range 600 {
		seconds := r.ExpFloat64() * []float64{0.5, 20, 1200}[r.IntN(3)]
		at = at.Add(time.Duration(seconds * float64(time.Second))).Round(time.Microsecond)
		a := simulate.Arrival{
			At: at, UserID: pick(r, programUsers), Channel: pick(r, []string{"fcm", "email"}),
			Priority: pick(r, []string{"critical", "high", "normal", "low"}),
			Category: pick(r, strings.Fields("chat chat news alarm sale default bucket fixed")),
		}
		switch r.IntN(8) {
		case 0:
			a.SendAt = at.Add(time.Duration(r.Int64N(int64(time.Hour)))).Round(time.Microsecond)
		case 1:
			a.CollapseKey = "key"
		case 2:
			a.ExpiresAt = at.Add(time.Duration(r.Int64N(int64(12*time.Hour)) + 1e9)).Round(time.Microsecond)
		}
		all = append(all, a)
	}
	return all
}
