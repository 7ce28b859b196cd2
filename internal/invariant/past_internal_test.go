package invariant

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// However many admissions a user has, no more are remembered than some rule can see, twice.
func TestAUsersPastIsBounded(t *testing.T) {
	t.Parallel()
	plan := throttle.Plan{Rules: []throttle.Rule{
		{Max: 50, Per: time.Hour}, {Max: 80, Per: time.Hour, Kind: throttle.KindCap},
	}}
	r := &round{Checker: New(Config{
		Limits: func(string, string) Limits { return Limits{Plan: plan} },
	}), unchecked: map[unchecked]int{}, cleared: map[string]time.Time{}}
	r.cfg.Window = func(string) time.Duration { return time.Hour }
	for at := range throttle.Micros(10_000) {
		if err := r.add(t.Context(), Admission{UserID: "ada", Category: "chat", At: at}); err != nil {
			t.Fatal(err)
		}
		if n := max(len(r.user.past.all), len(r.user.past.category["chat"])); n > 2*80+named+1 {
			t.Fatalf("%d are remembered after %d", n, at)
		}
	}
}
