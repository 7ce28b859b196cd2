package agenda_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/embedded"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Two notifications of one user under a limit of one an hour: the first is granted and settled, the second is deferred.
func ExampleAgendas() {
	ctx := context.Background()
	server := embedded.Start(ctx)
	defer func() { _ = server.Close() }()
	hourly := agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}, MaxDefer: 24 * time.Hour,
	}
	agendas, err := agenda.New(server.Client(), agenda.Config{
		Partitions: 1, Settings: func(string, string) agenda.Settings { return hourly },
		Categories: func() []string { return []string{"chat"} },
	})
	if err != nil {
		panic(err)
	}
	normal := notification.PriorityNormal
	if _, err := agendas.Accept(ctx, 0, []agenda.Entry{
		{ID: "first", UserID: "ada", Category: "chat", Priority: normal},
		{ID: "second", UserID: "ada", Category: "chat", Priority: normal},
	}); err != nil {
		panic(err)
	}
	taken, err := agendas.Take(ctx, dispatch.TakeRequest{ID: "round.1", Pull: 10, Capacity: 10})
	if err != nil {
		panic(err)
	}
	for _, grant := range taken.Served[0].Grants {
		fmt.Println("granted", grant.Notification.ID)
		if _, err := agendas.Settle(ctx, grant, dispatch.Outcome{Disposition: dispatch.Delivered}); err != nil {
			panic(err)
		}
	}
	for _, id := range []string{"first", "second"} {
		state, err := agendas.Lookup(ctx, id)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s is %s, reason %q\n", id, state.Status, state.Reason)
	}
	// Output:
	// granted first
	// first is delivered, reason ""
	// second is deferred, reason "limit 1/1h"
}
