package app_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/settings"
)

// startRoles starts a process that has these roles only.
func (d *fleet) startRoles(roles ...settings.Role) *app.App {
	d.t.Helper()
	s := d.settings()
	s.Roles = roles
	return d.startWith(s)
}

// A process is ready while it can take what its roles promise: an API in front of Postgres accepts without Redis, so an
// orchestrator must leave it its traffic.
func TestReadyForWhatItsRolesPromise(t *testing.T) {
	t.Parallel()
	d := newDurable(t)
	worker := d.startRoles(settings.RoleWorker, settings.RoleOps)
	api := d.startRoles(settings.RoleAPI, settings.RoleOps)
	all := d.startRoles(settings.RoleAPI, settings.RoleWorker, settings.RoleOps)
	wantReady(t, "all respond", map[*app.App]string{worker: "", api: "", all: ""})

	d.redis.Kill()
	wantReady(t, "without Redis", map[*app.App]string{worker: "Redis does not respond", api: "", all: ""})
	d.apps = []*app.App{api}
	if status := d.callOnce(http.MethodPost, "/v1/notifications", []byte(`{"user_id":"ada","to":"`+d.receiver.server.URL+`"}`), nil); status != http.StatusAccepted {
		t.Errorf("what says that it is ready returns %d", status)
	}
	d.redis.Restart()
	awaitReady(t, worker)

	// One that hangs is told apart from one that responds within the time that the page has for it.
	d.redis.Freeze()
	wantReady(t, "Redis hangs", map[*app.App]string{worker: "Redis does not respond"})
	wantReady(t, "Redis hangs", map[*app.App]string{api: ""})
	d.redis.Thaw()
	d.postgres.Kill()
	wantReady(t, "without Postgres", map[*app.App]string{
		worker: "Postgres does not respond", api: "Postgres does not respond", all: "Postgres does not respond",
	})
	d.postgres.Restart()
	awaitReady(t, api)
	if err := api.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantReady(t, "stopped", map[*app.App]string{api: "draining"})
}

// wantReady fails the test unless each process is ready, or says in its reason why not.
func wantReady(t *testing.T, when string, want map[*app.App]string) {
	t.Helper()
	for process, reason := range want {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got := process.Ready(ctx)
		cancel()
		if (reason == "") != (got.Reason == "") || !strings.Contains(got.Reason, reason) {
			t.Errorf("%s: %+v, want %q", when, got, reason)
		}
	}
}

// awaitReady waits until a process is ready again.
func awaitReady(t *testing.T, process *app.App) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got := process.Ready(ctx)
		cancel()
		if got.Reason == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %+v", got)
		}
	}
}
