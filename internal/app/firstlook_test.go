package app_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
)

// Until the relay has compared Redis with Postgres, which may have been restored, no worker takes what only Redis may
// still know.
func TestWorkersWaitForTheFirstLook(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onPostgres, crowdPolicy, 1), newReceiver(t)
	d.bulk(r.crowd("ada", "default", 1))
	d.awaitStats("the partitions are built", func(s stats) bool { return s.Totals.Delivered == 1 })
	d.stop()
	accepting := d.settings()
	accepting.Roles = []settings.Role{settings.RoleAPI}
	d.startWith(accepting)
	d.bulk(r.crowd("ada", "default", 1))

	took, looked := make(chan time.Time, 1), make(chan time.Time, 1)
	process, err := app.Hooks{
		Dispatch: func(s dispatch.Store) dispatch.Store { return taking{s, took} },
		Service: func(s app.Service) app.Service {
			if relay, ok := s.(*relay.Relay); ok {
				return lateRelay{relay, looked}
			}
			return s
		},
	}.New(t.Context(), d.settings(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(context.Background()) })
	at := <-took
	if before := <-looked; at.Before(before) && at.Sub(begun) < 4*time.Second { // a worker waits 5 s at most
		t.Errorf("a worker took something %s before the first look", before.Sub(at))
	}
	r.await(t, 2)
}

// taking tells when something is taken first.
type taking struct {
	dispatch.Store
	took chan time.Time
}

// Take implements [dispatch.Store].
func (s taking) Take(ctx context.Context, r dispatch.TakeRequest) (dispatch.TakeResult, error) {
	select {
	case s.took <- time.Now():
	default:
	}
	return s.Store.Take(ctx, r)
}

// lateRelay is a relay that begins late, and tells when.
type lateRelay struct {
	relay  *relay.Relay
	looked chan time.Time
}

// Run implements [app.Service].
func (l lateRelay) Run(ctx context.Context) {
	<-time.After(500 * time.Millisecond)
	l.looked <- time.Now()
	l.relay.Run(ctx)
}
