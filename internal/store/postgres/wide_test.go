package postgres_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// widePolicy looks back an hour.
const widePolicy = "version: 1\ncategories: {default: {limits: [{max: 100, per: 1h}]}}\n"

// wideWorld is one in which ada's own limit looks back 366 days. Whatever looks back in it uses what the deployment
// uses.
func wideWorld(t *testing.T) (*world, *effective.Policy) {
	t.Helper()
	parsed, err := policy.Parse("policy.yaml", []byte(widePolicy))
	if err != nil {
		t.Fatal(err)
	}
	rules := effective.New(func() *policy.Policy { return parsed })
	rules.Own = preferences.NewMemory()
	w := newWorldWith(t, redistest.Client(t), agenda.Config{MaxCrashes: 1000, Settings: rules.Settings})
	w.relay = relay.New(w.store.Stores, relay.Config{
		Check: func(*notification.Notification) error { return nil }, Windows: rules.LongestWindow,
	})
	wide := &notification.Preferences{Limits: map[string]json.RawMessage{
		"default": json.RawMessage(`{"limits": [{"max": 1, "per": "366d"}]}`),
	}}
	if err := rules.Own.Set("ada", wide); err != nil {
		t.Fatal(err)
	}
	w.exec(t, `INSERT INTO pacer.preferences (user_id, limits)
		VALUES ('ada', '{"default": {"limits": [{"max": 1, "per": "366d"}]}}')`)
	return w, rules
}

// longAgo has each user's delivered notifications, and what was cleared, be of 200 days ago.
func (w *world) longAgo(t *testing.T) {
	t.Helper()
	w.exec(t, `UPDATE pacer.notifications SET accepted_at = now() - interval '200 days',
		ended_at = now() - interval '200 days' WHERE ended_at IS NOT NULL`)
	w.exec(t, `UPDATE pacer.attempts SET admitted_at = admitted_at - 200 * 86400 * 1000000::bigint,
		ended_at = ended_at - interval '200 days'`)
	w.exec(t, "UPDATE pacer.cleared SET until = until - 200 * 86400 * 1000000::bigint")
}

// list reads a list of texts.
func (w *world) list(t *testing.T, sql string) (texts string) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(text, ' ' ORDER BY text), '') FROM ("+sql+
		") AS of(text)").Scan(&texts); err != nil {
		t.Fatal(err)
	}
	return texts
}

// What one user's own limit looks back to is kept for that user, and for nobody else.
func TestRowsAreKeptForTheirOwnUsersWindows(t *testing.T) {
	t.Parallel()
	w, _ := wideWorld(t)
	for _, user := range []string{"ada", "eve"} {
		w.accept(t, user, "default", 1)
		w.deliver(t, user)
		if err := w.store.NoteCleared(t.Context(), user, "other"); err != nil {
			t.Fatal(err)
		}
	}
	w.exec(t, `INSERT INTO pacer.attempts
			(notification_id, generation, attempt, user_id, category, admitted_at, ended_at, outcome)
		SELECT '~default:' || u, 1, 1, u, 'default', 1, now(), 'imported' FROM unnest('{ada,eve}'::text[]) u`)
	w.longAgo(t)
	if n, err := w.relay.Purge(t.Context()); err != nil || n != 1 {
		t.Errorf("purged %d, %v; want that of eve", n, err)
	}
	for sql, want := range map[string]string{
		"SELECT id FROM pacer.notifications":         "ada-default-0",
		"SELECT notification_id FROM pacer.attempts": "ada-default-0 ~default:ada",
		"SELECT DISTINCT user_id FROM pacer.cleared": "ada",
	} {
		if got := w.list(t, sql); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}

// However many rows stay for their own user, the purge looks at a bounded number of them at a time, and reaches what is
// behind them.
func TestThePurgePassesWhatStaysForItsUser(t *testing.T) {
	t.Parallel()
	w, _ := wideWorld(t)
	w.accept(t, "ada", "default", 12_500)
	w.accept(t, "eve", "default", 1)
	w.exec(t, "UPDATE pacer.notifications SET status = 'delivered', ended_at = now()")
	w.longAgo(t)
	w.exec(t, "UPDATE pacer.notifications SET accepted_at = now() - interval '199 days' WHERE user_id = 'eve'")
	for _, want := range []int64{0, 1, 0} {
		if n, err := w.relay.Purge(t.Context()); err != nil || n != want {
			t.Errorf("purged %d, %v; want %d", n, err, want)
		}
	}
	if got := w.list(t, "SELECT count(*)::text FROM pacer.notifications"); got != "12500" {
		t.Errorf("%s are left, want all of ada's", got)
	}
}

// A rebuild, and what verifies it, look back as far as each user's own windows, and read nothing of others for that.
func TestARebuildLooksBackForEachUser(t *testing.T) {
	t.Parallel()
	w, _ := wideWorld(t)
	for _, user := range []string{"ada", "eve"} {
		w.accept(t, user, "default", 2)
		w.deliver(t, user)
	}
	w.longAgo(t)
	w.flush(t)
	if rebuilt, err := w.relay.Rebuild(t.Context()); err != nil || rebuilt.Windows != 1 {
		t.Errorf("the windows of %d backlogs were restored, %v; want ada's", rebuilt.Windows, err)
	}
	w.wantDifferences(t)
	if got := w.deliverAll(t); !slices.Equal(got, []string{"eve-default-1"}) {
		t.Errorf("%v went, want that of eve", got)
	}
	w.exec(t, "UPDATE pacer.attempts SET admitted_at = admitted_at + 1000000 WHERE user_id = 'ada'")
	w.wantDifferences(t, "window default:ada")
}

// The checker reads as far back as each user's own windows.
func TestTheCheckerLooksBackForEachUser(t *testing.T) {
	t.Parallel()
	w, rules := wideWorld(t)
	for _, user := range []string{"ada", "eve"} {
		w.accept(t, user, "default", 1)
		w.deliver(t, user)
	}
	w.exec(t, `INSERT INTO pacer.attempts
			(notification_id, generation, attempt, user_id, category, admitted_at, ended_at, outcome)
		SELECT 'old-' || user_id, 1, 1, user_id, category, admitted_at - 200 * 86400 * 1000000::bigint, ended_at, outcome
		FROM pacer.attempts`)
	now := throttle.MicrosOf(time.Now())
	var ids []string
	err := w.store.Admissions(t.Context(), now.Add(-time.Minute), now.Add(time.Minute), rules.LongestWindow,
		func(a invariant.Admission) error { ids = append(ids, a.ID); return nil })
	slices.Sort(ids)
	if want := []string{"ada-default-0", "eve-default-0", "old-ada"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("the checker reads %v, %v; want %v", ids, err, want)
	}
}
