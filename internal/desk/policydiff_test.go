package desk_test

import (
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/policy"
)

func ExamplePolicyDiff() {
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	fmt.Print(&desk.PolicyDiff{
		InForce: "918ad9f135aeac20", Version: "1e1152c87feba857",
		Rules: []policy.Difference{
			{Before: "time zone UTC", After: "time zone UTC, quiet hours in window night, spread 15m"},
			{Category: "chat", Before: "limit 10/1m, max_defer 1d", After: "limit 20/1m, max_defer 1d"},
			{Category: "news", After: "limit 1/1h, max_defer 1d"},
		},
		Users: 1000, Looked: 400,
		Waiting: []desk.WaitingDiff{
			{
				Category: "chat", Waiting: 25_000, Sooner: 24_100, Same: 850, Ended: 50,
				MostSooner: &desk.Moved{ID: "n7", Before: at.Add(time.Hour), After: at},
			},
		},
	})
	// Output:
	// in force  918ad9f135aeac20
	// FILE      1e1152c87feba857
	//
	// all categories
	//   - time zone UTC
	//   + time zone UTC, quiet hours in window night, spread 15m
	//
	// chat
	//   - limit 10/1m, max_defer 1d
	//   + limit 20/1m, max_defer 1d
	//
	// news
	//   + limit 1/1h, max_defer 1d
	//
	// WAITING IN             ALL    SOONER     LATER      SAME     ENDED
	// chat                 25000     24100         0       850        50
	// chat: n7 would go at 2026-11-22T09:00:00.000Z instead of 2026-11-22T10:00:00.000Z
	// Estimated from 400 of 1000 users, picked at random.
}
