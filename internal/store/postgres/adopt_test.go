package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/store/postgres/adopt"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// newDatabase is a database that was never used, beside a Redis.
func newDatabase(t *testing.T) (*pgxpool.Pool, *agenda.Agendas) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	agendas, _ := open(t, pool, redistest.Client(t), agenda.Config{})
	return pool, agendas
}

// kept is a page of what Redis keeps; each is "user id", and a key if it has one.
type kept []string

func (k kept) take(t *testing.T, to *adopt.Adoption) error {
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
			pool, agendas := newDatabase(t)
			done, err := adopt.Into(t.Context(), pool, agendas, func(to *adopt.Adoption) (err error) {
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
			used := func(*adopt.Adoption) error { return errors.New("used") }
			again, err := adopt.Into(t.Context(), pool, agendas, used)
			if err != nil || again != nil || done.Notifications != int64(strings.Count(c.want, ",")+1) {
				t.Errorf("%+v was adopted, then %+v, %v", done, again, err)
			}
		})
	}
}

// Of processes that start together, one adopts.
func TestOneProcessAdopts(t *testing.T) {
	t.Parallel()
	pool, agendas := newDatabase(t)
	begun, results := make(chan struct{}), make(chan bool, 2)
	into := func(fill func(*adopt.Adoption) error) {
		done, err := adopt.Into(t.Context(), pool, agendas, fill)
		if err != nil {
			t.Error(err)
		}
		results <- done != nil
	}
	go into(func(*adopt.Adoption) error {
		close(begun)
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the other one waits for as long
		return nil
	})
	<-begun
	into(func(*adopt.Adoption) error { return errors.New("it is not new") })
	if first, second := <-results, <-results; first == second {
		t.Errorf("adopted: %t, %t", first, second)
	}
}

// What waits for a retry comes along with its moment, what was being sent comes again when its lease has ended. Pages
// are small enough for memory, however many there are.
func TestAdoptionKnowsWhenARetryIsDue(t *testing.T) {
	t.Parallel()
	pool, agendas := newDatabase(t)
	client := redistest.Client(t)
	kept, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings, Lease: time.Hour})
	from := redis.New(client, kept)
	for i := range 300 {
		n := &notification.Notification{ID: fmt.Sprint(i), UserID: "ada", Category: "free", Channel: "log", Priority: 3}
		_, accepted := from.Accept(t.Context(), []*notification.Notification{n})
		err = errors.Join(err, accepted)
	}
	pulled, pull := from.Take(t.Context(), dispatch.TakeRequest{ID: "pull", Pull: 1})
	served, take := from.Take(t.Context(), dispatch.TakeRequest{ID: "ask", Wakeups: pulled.Pulled, Capacity: 2})
	_, settle := from.Settle(t.Context(), served.Results[0].Grants[0],
		dispatch.Outcome{Disposition: dispatch.Retry, Reason: "503", RetryAfter: 5 * time.Hour, Failure: true})
	_, adopted := adopt.Into(t.Context(), pool, agendas, func(to *adopt.Adoption) error {
		return from.EachKept(t.Context(), func(states []*agenda.State, content []*notification.Notification) error {
			if len(states) > 100 {
				t.Errorf("%d are read at a time", len(states))
			}
			return to.Take(t.Context(), states, content)
		})
	})
	var retried, sending, waiting int
	err = errors.Join(err, pull, take, settle, adopted, pool.QueryRow(t.Context(), `SELECT
		count(*) FILTER (WHERE status = 'retrying' AND
			to_timestamp(not_before / 1e6) BETWEEN now() + '4 h' AND now() + '5 h'),
		count(*) FILTER (WHERE status = 'retrying' AND to_timestamp(not_before / 1e6) BETWEEN now() AND now() + '3 h'),
		count(*) FILTER (WHERE status = 'waiting' AND not_before IS NULL) FROM pacer.notifications
		`).Scan(&retried, &sending, &waiting))
	if err != nil || retried != 1 || sending != 1 || waiting != 298 {
		t.Errorf("%d are retried, %d sent, %d wait: %v", retried, sending, waiting, err)
	}
}
