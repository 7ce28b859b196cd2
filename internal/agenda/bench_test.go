package agenda_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// benchmarkAgendas opens the agendas of one partition with these rules in every category.
func benchmarkAgendas(b *testing.B, rules ...throttle.Rule) *agenda.Agendas {
	b.Helper()
	settings := agenda.Settings{Plan: throttle.Plan{Rules: rules}, MaxDefer: 24 * time.Hour}
	store, err := agenda.New(redistest.Client(b), agenda.Config{
		Partitions: 1, Settings: func(string, string) agenda.Settings { return settings },
		Categories: func() []string { return []string{"chat"} },
	})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

// accept accepts one notification of a user.
func accept(b *testing.B, store *agenda.Agendas, user string, number int) {
	b.Helper()
	e := agenda.Entry{
		ID: "n" + strconv.Itoa(number), UserID: user, Category: "chat", Priority: notification.PriorityNormal,
		Payload: "{}",
	}
	if _, err := store.Accept(b.Context(), 0, []agenda.Entry{e}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAccept accepts into a backlog that is blocked: the common case for a user who gets more than the policy
// allows.
func BenchmarkAccept(b *testing.B) {
	store := benchmarkAgendas(b, throttle.Rule{Max: 1, Per: time.Hour})
	accept(b, store, "ada", 0)
	if _, err := store.Take(b.Context(), dispatch.TakeRequest{ID: "r.1", Pull: 1, Capacity: 1}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := 1; b.Loop(); n++ {
		accept(b, store, "ada", n)
	}
}

// BenchmarkDelivery takes one notification from accept to settle: three scripts.
func BenchmarkDelivery(b *testing.B) {
	store := benchmarkAgendas(b, throttle.Rule{Max: 1_000_000, Per: time.Minute})
	delivered := dispatch.Outcome{Disposition: dispatch.Delivered}
	b.ReportAllocs()
	for n := 1; b.Loop(); n++ {
		accept(b, store, "user"+strconv.Itoa(n%1000), n)
		taken, err := store.Take(b.Context(), dispatch.TakeRequest{ID: "r." + strconv.Itoa(n), Pull: 1, Capacity: 1})
		if err != nil || len(taken.Served) != 1 || len(taken.Served[0].Grants) != 1 {
			b.Fatalf("took %+v, %v", taken, err)
		}
		if s, err := store.Settle(b.Context(), taken.Served[0].Grants[0], delivered); err != nil || s.Stale {
			b.Fatalf("settled %+v, %v", s, err)
		}
	}
}
