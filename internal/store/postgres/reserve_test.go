package postgres_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A pause or a hold may keep a notification open for longer than the life that its idempotency key was given. Then a
// repeat still finds it, and the purge leaves the key. Once it has ended, the key is free.
func TestAKeyIsKeptWhileItsNotificationIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	reserve := func(fingerprint, id string, want intake.Reservation) {
		t.Helper()
		if got, err := storetest.ReserveOne(t.Context(), w.store, "key", fingerprint, id); err != nil || got != want {
			t.Fatalf("reserved as %+v, %v; want %+v", got, err, want)
		}
	}
	reserved := func(fingerprint string, want intake.Reservation) {
		t.Helper()
		if got, err := w.store.Reserved(t.Context(), "key", fingerprint); err != nil || got != want {
			t.Fatalf("looked up as %+v, %v; want %+v", got, err, want)
		}
	}
	const expire = "UPDATE pacer.idempotency_keys SET expires_at = now() - interval '1 minute'"
	reserve("body", "old", intake.Reservation{Claim: intake.ClaimNew, ID: "old"})
	w.acceptOne(t, notification.Notification{ID: "old"})
	w.exec(t, expire+", accepting_until = now() - interval '1 minute'")
	reserved("body", intake.Reservation{Claim: intake.ClaimNew, ID: "old"})
	reserved("other", intake.Reservation{Claim: intake.ClaimOther, ID: "old"})
	reserve("body", "new", intake.Reservation{Claim: intake.ClaimNew, ID: "old"}) // what did not finish is taken over
	if err := w.store.Commit(t.Context(), []intake.AcceptedKey{{Key: "key"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before the purge, and after it
		w.exec(t, expire)
		reserved("body", intake.Reservation{Claim: intake.ClaimDone, ID: "old"})
		reserve("body", "new", intake.Reservation{Claim: intake.ClaimDone, ID: "old"})
		reserve("other", "new", intake.Reservation{Claim: intake.ClaimOther, ID: "old"})
		if _, err := w.relay.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.deliver(t, "ada")
	w.exec(t, expire)
	reserved("body", intake.Reservation{Claim: intake.ClaimNew})
	reserve("body", "new", intake.Reservation{Claim: intake.ClaimNew, ID: "new"})
	w.exec(t, expire)
	if _, err := w.relay.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.idempotency_keys").Scan(&left); err != nil ||
		left != 0 {
		t.Errorf("%d keys are left, %v", left, err)
	}
}

// Keys of open notifications do not keep the purge from the others, nor busy: each is looked at once.
func TestThePurgePassesKeysOfOpenNotifications(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.acceptOne(t, notification.Notification{ID: "open"})
	w.exec(t, `INSERT INTO pacer.idempotency_keys (key, fingerprint, notification_id, expires_at)
		SELECT 'open' || i, 'f', 'open', now() - interval '2 days' FROM generate_series(1, 2500) i UNION ALL
		SELECT 'over' || i, 'f', 'over', now() - interval '1 day' FROM generate_series(1, 2500) i`)
	if _, err := w.relay.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var open, over, expired int
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE notification_id = 'open'),
		count(*) FILTER (WHERE notification_id = 'over'), count(*) FILTER (WHERE expires_at < now())
		FROM pacer.idempotency_keys`).Scan(&open, &over, &expired); err != nil || open != 2500 || over != 0 || expired != 0 {
		t.Errorf("kept %d keys of an open notification, %d of none, %d expired; %v", open, over, expired, err)
	}
}
