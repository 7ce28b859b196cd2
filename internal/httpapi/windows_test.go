package httpapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// noting is an audit log that notes as a test says.
type noting struct {
	control.Store
	note func(context.Context, control.Entry) error
}

// Note implements [control.Store].
func (n *noting) Note(ctx context.Context, e control.Entry) error { return n.note(ctx, e) }

// oneAdmitted are the windows of a deployment in which one notification of ada was admitted.
func oneAdmitted(t *testing.T) (httpapi.Windows, *noting) {
	t.Helper()
	agendas, err := agenda.New(redistest.Mini(t), agenda.Config{
		Partitions: 1, Categories: func() []string { return []string{"chat"} },
		Settings: func(string, string) agenda.Settings {
			return agenda.Settings{
				MaxDefer: 24 * time.Hour, Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 5, Per: time.Hour}}},
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	entry := agenda.Entry{ID: "n1", UserID: "ada", Category: "chat", Priority: notification.PriorityNormal}
	if _, err := agendas.Accept(t.Context(), 0, []agenda.Entry{entry}); err != nil {
		t.Fatal(err)
	}
	request := dispatch.TakeRequest{ID: "w.1", Capacity: 8, Pull: 8}
	if _, err := agendas.Take(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	audit := &noting{}
	w := httpapi.Windows{Agendas: agendas, Audit: audit}
	if used := usedBy(t, w); used != 1 {
		t.Fatalf("%d were admitted, want 1", used)
	}
	return w, audit
}

// usedBy is how much of ada's limit is used.
func usedBy(t *testing.T, w httpapi.Windows) int {
	t.Helper()
	window, err := w.Window(t.Context(), "ada", "chat")
	if err != nil {
		t.Fatal(err)
	}
	return window.Rules[0].Used
}

// Windows are noted before they are cleared. If that fails they stay, or the invariant checker would take what
// is admitted next for violations.
func TestWindowsThatCannotBeNotedStay(t *testing.T) {
	t.Parallel()
	w, audit := oneAdmitted(t)
	full := errors.New("the disk is full")
	audit.note = func(context.Context, control.Entry) error {
		if used := usedBy(t, w); used != 1 {
			t.Errorf("they were cleared before they were noted: %d used", used)
		}
		return full
	}
	if err := w.Clear(t.Context(), "ada", "chat"); !errors.Is(err, full) {
		t.Errorf("clearing returned %v", err)
	}
	if used := usedBy(t, w); used != 1 {
		t.Errorf("the windows were cleared: %d used", used)
	}
}

// What was noted is done, although the caller has gone since.
func TestNotedWindowsAreCleared(t *testing.T) {
	t.Parallel()
	w, audit := oneAdmitted(t)
	ctx, cancel := context.WithCancel(t.Context())
	var noted control.Entry
	audit.note = func(_ context.Context, e control.Entry) error {
		noted = e
		cancel()
		return nil
	}
	if err := w.Clear(ctx, "ada", "chat"); err != nil {
		t.Error(err)
	}
	want := control.Entry{By: "API", Action: control.Cleared, Subject: "ada", Detail: "chat"}
	if used := usedBy(t, w); used != 0 || noted != want {
		t.Errorf("%d used, noted is %+v", used, noted)
	}
}

// Where windows are rebuilt from Postgres, that learns of the clear before Redis does: a process that dies in between
// leaves no clear that a rebuild undoes.
func TestPostgresLearnsOfAClearFirst(t *testing.T) {
	t.Parallel()
	w, audit := oneAdmitted(t)
	ctx, cancel := context.WithCancel(t.Context())
	audit.note = func(context.Context, control.Entry) error { cancel(); return nil }
	away := errors.New("Postgres is away")
	w.Note = func(ctx context.Context, userID, category string) error {
		if used := usedBy(t, w); used != 1 || userID != "ada" || category != "chat" || ctx.Err() != nil {
			t.Errorf("noted with %d used: %s, %s, %v", used, userID, category, ctx.Err())
		}
		return away
	}
	if err := w.Clear(ctx, "ada", "chat"); !errors.Is(err, away) || usedBy(t, w) != 1 {
		t.Errorf("clearing returned %v, and %d are used", err, usedBy(t, w))
	}
	w.Note = func(context.Context, string, string) error { return nil }
	if err := w.Clear(t.Context(), "ada", "chat"); err != nil || usedBy(t, w) != 0 {
		t.Errorf("clearing returned %v, and %d are used", err, usedBy(t, w))
	}
}
