//go:build accept

package retime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/retime"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A forecast of a million that wait of 10,000 users, and a pass over all of them, keep few in memory.
func TestAMillionWaiting(t *testing.T) {
	t.Parallel()
	const users, each = 10_000, 100
	client := redistest.Client(t)
	p := newProcess(t, client, old)
	entries := make([]agenda.Entry, each)
	for i := range users {
		user := fmt.Sprint("user", i)
		for n := range entries {
			entries[n] = agenda.Entry{ID: fmt.Sprint(user, "-", n), UserID: user, Category: "chat", Priority: 3}
			if n%2 == 0 {
				entries[n].SendAt = time.Now().Add(time.Duration(n) * time.Hour)
			}
		}
		if _, err := p.Accept(t.Context(), p.PartitionOf(user), entries); err != nil {
			t.Fatal(err)
		}
	}
	storetest.WantSmallHeap(t, "forecast", func() {
		found := outlook.Of(p.Agendas).Forecast(t.Context(), time.Now()).Reasons
		if len(found) == 0 || found[0].Count < users*each/3 {
			t.Errorf("the forecast knows of %+v only", found)
		}
	})
	p.load(newest)
	storetest.WantSmallHeap(t, "retime", func() {
		for began := time.Now(); ; p.step() {
			known, err := retime.Read(t.Context(), client)
			if err != nil || time.Since(began) > 5*time.Minute {
				t.Fatalf("after %s: %+v, %v", time.Since(began), known, err)
			}
			if known.Version == newest && !known.UnderWay() {
				return
			}
		}
	})
}
