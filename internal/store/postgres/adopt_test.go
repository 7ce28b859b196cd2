package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// newDatabase is a store in a database that was never used.
func newDatabase(t *testing.T) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	_, store := open(t, pool, redistest.Client(t), agenda.Config{})
	return store, pool
}

// kept is a page of what Redis keeps; each is "user id", and a key if it has one.
type kept []string

func (k kept) take(t *testing.T, to *postgres.Adoption) error {
	t.Helper()
	var states []*agenda.State
	var content []*notification.Notification
	for _, text := range k {
		of := append(strings.Fields(text), "")
		states = append(states, &agenda.State{
			Backlog: dispatch.Backlog{UserID: of[0], Category: "chat"}, ID: of[1], Status: notification.StatusQueued,
			AcceptedAt: time.Now(),
		})
		content = append(content, &notification.Notification{
			ID: of[1], UserID: of[0], Category: "chat", Channel: notification.ChannelLog, IdempotencyKey: of[2],
			Fingerprint: of[2], Priority: notification.PriorityNormal,
		})
	}
	return to.Take(t.Context(), states, content)
}

// What Redis hands over twice is one. An id that two users have would lose the notification of one of them: then
// nothing is adopted, and the next start tries again. A claim on Redis may end before its notification, so a key may
// have had several; one of them keeps it.
func TestAdoptionTakesEachNotificationOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pages []kept
		want  string // the rows with their keys; "" for a refusal
	}{
		"Twice":     {[]kept{{"ada same", "finn other"}, {"ada same"}, {"finn other", "ada same"}}, "other ,same "},
		"IDInAPage": {[]kept{{"ada same", "ben same", "finn other"}}, ""},
		"IDInPages": {[]kept{{"ada same"}, {"finn other"}, {"ben same"}}, ""},
		"Keys":      {[]kept{{"ada 1 key", "ada 2 key", "ada 3"}, {"ada 4 key", "ada 1 key"}}, "1 key,2 ,3 ,4 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newDatabase(t)
			done, err := store.Adopt(t.Context(), func(to *postgres.Adoption) (err error) {
				for _, page := range c.pages {
					err = errors.Join(err, page.take(t, to))
				}
				return err
			})
			got := ""
			if err := pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(id || ' ' || coalesce(idempotency_key, ''), ','
				ORDER BY id), '') FROM pacer.notifications`).Scan(&got); err != nil || got != c.want {
				t.Errorf("the rows are %q, %v; want %q", got, err, c.want)
			}
			if refused, ok := errors.AsType[*refusal.Error](err); ok != (c.want == "") || ok &&
				!strings.Contains(refused.Reason, `"same"`) {
				t.Errorf("the adoption returns %v", err)
			}
			if c.want == "" {
				return
			}
			again, err := store.Adopt(t.Context(), func(*postgres.Adoption) error { return errors.New("used") })
			if err != nil || again != nil || done.Notifications != int64(strings.Count(c.want, ",")+1) {
				t.Errorf("%+v was adopted, then %+v, %v", done, again, err)
			}
		})
	}
}

// Of processes that start together, one adopts.
func TestOneProcessAdopts(t *testing.T) {
	t.Parallel()
	store, _ := newDatabase(t)
	begun, results := make(chan struct{}), make(chan bool, 2)
	adopt := func(fill func(*postgres.Adoption) error) {
		done, err := store.Adopt(t.Context(), fill)
		if err != nil {
			t.Error(err)
		}
		results <- done != nil
	}
	go adopt(func(*postgres.Adoption) error {
		close(begun)
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the other one waits for as long
		return nil
	})
	<-begun
	adopt(func(*postgres.Adoption) error { return errors.New("it is not new") })
	if first, second := <-results, <-results; first == second {
		t.Errorf("adopted: %t, %t", first, second)
	}
}
