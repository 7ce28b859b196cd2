package endpoints_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

// stores are an empty store of endpoints, and the events that are written together with them.
type stores struct {
	endpoints.Store
	events events.Store
}

// onEach runs a test on each kind of store.
func onEach(t *testing.T, run func(t *testing.T, s stores)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) stores{
		"Redis": func(t *testing.T) stores {
			client := redistest.Client(t)
			return stores{endpoints.NewRedis(client), events.NewRedis(client)}
		},
		"Miniredis": func(t *testing.T) stores {
			client := redistest.Mini(t)
			return stores{endpoints.NewRedis(client), events.NewRedis(client)}
		},
		"Postgres": func(t *testing.T) stores {
			return onPostgres(t, postgrestest.URL(t), postgres.Direct)
		},
		"PgBouncer": func(t *testing.T) stores {
			return onPostgres(t, postgrestest.PgBouncer(t, postgrestest.URL(t)), postgres.Pooled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open(t))
		})
	}
}

// onPostgres opens the stores in a database, with connections as prepare makes them.
func onPostgres(t *testing.T, url string, prepare func(*pgxpool.Config)) stores {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	prepare(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return stores{endpoints.NewPostgres(pool), events.NewPostgres(pool)}
}

func (s stores) add(t *testing.T, id, url string) *endpoints.Endpoint {
	t.Helper()
	e := &endpoints.Endpoint{ID: id, URL: url, Secret: signing.Generate(signing.HMAC)}
	if err := s.Add(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

func (s stores) remove(t *testing.T, id string) {
	t.Helper()
	if err := s.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func (s stores) get(t *testing.T, id string) *endpoints.Endpoint {
	t.Helper()
	e, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// happened lists the events, as "type endpoint".
func (s stores) happened(t *testing.T) (all []string) {
	t.Helper()
	list, err := s.events.After(t.Context(), 0, events.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		if e.Sequence != int64(i+1) || time.Since(e.At).Abs() > time.Minute || e.ID == "" {
			t.Errorf("event %d is %+v", i, e)
		}
		all = append(all, string(e.Type)+" "+e.EndpointID)
	}
	return all
}

func ids(all []endpoints.Endpoint) string {
	var names []string
	for _, e := range all {
		names = append(names, fmt.Sprintf("%s/%t", e.ID, e.Removed))
	}
	return strings.Join(names, " ")
}

// Everything of an endpoint comes back, every URL is registered once, and changes are read in their order, the removed
// ones too.
func TestStoresKeepEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		ctx := t.Context()
		before, now, err := s.Position(ctx)
		if err != nil || time.Since(now).Abs() > time.Minute || before != 0 {
			t.Fatalf("an empty store is at %d, %s, %v", before, now, err)
		}
		whole := &endpoints.Endpoint{
			ID: "ep_1", URL: "https://Example.com:443/ü?a=%20", Description: "Ünï",
			Headers: map[string]string{"X-A": "b\"c"}, Secret: secret.New("whsec_x"),
			Old: []endpoints.OldSecret{{Secret: secret.New("whsk_y"), Until: now.Add(time.Hour)}},
		}
		if err := s.Add(ctx, whole); err != nil {
			t.Fatal(err)
		}
		got := s.get(t, "ep_1")
		if got.Secret.Reveal() != "whsec_x" || len(got.Old) != 1 || got.Old[0].Secret.Reveal() != "whsk_y" ||
			!got.Old[0].Until.Equal(now.Add(time.Hour)) || got.URL != whole.URL || got.Description != "Ünï" ||
			got.Headers["X-A"] != "b\"c" || got.CreatedAt.Before(now) || !got.CountsFrom.Equal(got.CreatedAt) {
			t.Errorf("it comes back as %+v", got)
		}
		s.add(t, "ep_2", "https://example.com/2")
		taken := func(err error) {
			t.Helper()
			if e, ok := errors.AsType[*endpoints.TakenError](err); !ok || e.ID != "ep_1" || e.Field != "url" {
				t.Errorf("a URL that is registered: %v", err)
			}
		}
		taken(s.Add(ctx, &endpoints.Endpoint{ID: "ep_3", URL: "https://example.com/ü?a=%20"}))
		_, err = s.Change(ctx, "ep_2", func(e *endpoints.Endpoint, _ time.Time) ([]events.Event, error) {
			e.URL = "HTTPS://EXAMPLE.COM/ü?a=%20"
			return []events.Event{events.New(events.EndpointEnabled, e.ID, "")}, nil
		})
		taken(err)
		if err := s.Remove(ctx, "ep_1"); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{
			s.Remove(ctx, "ep_1"), second(s.Get(ctx, "ep_1")), second(s.Get(ctx, "unknown")),
			second(s.Change(ctx, "ep_1", nil)),
		} {
			if !errors.Is(err, endpoints.ErrNotFound) {
				t.Errorf("one that was removed: %v", err)
			}
		}
		s.add(t, "ep_4", whole.URL) // its URL is free again, its id not yet
		for _, id := range []string{"ep_1", "ep_2"} {
			err := s.Add(ctx, &endpoints.Endpoint{ID: id, URL: "https://example.com/new"})
			if !isTaken(err, id) {
				t.Errorf("the id %s: %v", id, err)
			}
		}
		changes, err := s.Changes(ctx, 0, 10)
		if err != nil || ids(changes) != "ep_2/false ep_1/true ep_4/false" {
			t.Errorf("the changes are %s, %v", ids(changes), err)
		}
		version, _, err := s.Position(ctx)
		if err != nil || version < changes[2].Version { // an addition that failed may have taken a number
			t.Errorf("the latest change is %d, the store is at %d, %v", changes[2].Version, version, err)
		}
		if later, err := s.Changes(ctx, version, 10); err != nil || len(later) > 0 {
			t.Errorf("after the latest change come %s, %v", ids(later), err)
		}
		if changes[1].Secret.Reveal()+changes[1].URL != "" {
			t.Errorf("of the removed one there is %+v", changes[1])
		}
		if later, err := s.Changes(ctx, changes[0].Version, 1); err != nil || ids(later) != "ep_1/true" {
			t.Errorf("later ones are %s, %v", ids(later), err)
		}
		page, err := s.List(ctx, "", 1)
		next, nextErr := s.List(ctx, "ep_2", 9)
		if err != nil || nextErr != nil || ids(page) != "ep_2/false" || ids(next) != "ep_4/false" {
			t.Errorf("the pages are %s and %s, %v, %v", ids(page), ids(next), err, nextErr)
		}
		if told := s.happened(t); len(told) != 0 {
			t.Errorf("events of changes that failed: %v", told)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// Many change one endpoint at once: none is lost, and each has its event.
func TestChangesComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		s.add(t, "ep_1", "https://example.com/1")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 5 {
					once := func(e *endpoints.Endpoint, _ time.Time) ([]events.Event, error) {
						e.Failures++
						return []events.Event{events.New(events.EndpointDisabled, e.ID, "x")}, nil
					}
					if _, err := s.Change(t.Context(), "ep_1", once); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if e := s.get(t, "ep_1"); e.Failures != 20 || len(s.happened(t)) != 20 {
			t.Errorf("%d of 20 changes are there, and %d events", e.Failures, len(s.happened(t)))
		}
	})
}

// removedEarlier has all removed endpoints be removed so much earlier.
func (s stores) removedEarlier(t *testing.T, by time.Duration) {
	t.Helper()
	if err := endpoints.RemovedEarlier(t.Context(), s.Store, by); err != nil {
		t.Fatal(err)
	}
}

// An hour after an endpoint was removed its id is free, also when nothing else was changed since then, and when
// others were removed before it. Of many that want it at once, one gets it.
func TestTheIDOfARemovedEndpointComesFree(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"Alone": 0, "AfterOthers": endpoints.ForgetAtOnce} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, s stores) {
				for i := range others {
					s.remove(t, s.add(t, fmt.Sprintf("a_%d", i), hook).ID)
				}
				s.remove(t, s.add(t, "ep_1", hook).ID)
				register := func(url string) error {
					return s.Add(t.Context(), &endpoints.Endpoint{ID: "ep_1", URL: url})
				}
				s.removedEarlier(t, time.Hour/2)
				if err := register(hook); !isTaken(err, "ep_1") {
					t.Errorf("half an hour later: %v", err)
				}
				s.removedEarlier(t, time.Hour)
				var all sync.WaitGroup
				errs := make([]error, 4)
				for i := range errs {
					all.Go(func() { errs[i] = register(fmt.Sprintf("%s/%d", hook, i)) })
				}
				all.Wait()
				got := 0
				for _, err := range errs {
					if err == nil {
						got++
					} else if !isTaken(err, "ep_1") {
						t.Errorf("an hour later: %v", err)
					}
				}
				if got != 1 {
					t.Errorf("an hour later %d get the id, want 1", got)
				}
			})
		})
	}
}

// isTaken reports whether an error says that an id is in use.
func isTaken(err error, id string) bool {
	e, ok := errors.AsType[*endpoints.TakenError](err)
	return ok && e.ID == id && e.Field == "id"
}

func TestNormal(t *testing.T) {
	t.Parallel()
	same := []string{"https://example.com", "HTTPS://Example.COM:443/", "https://example.com/#x"}
	for _, url := range same {
		if endpoints.Normal(url) != "https://example.com/" {
			t.Errorf("%s is %s", url, endpoints.Normal(url))
		}
	}
	for _, url := range []string{
		"https://example.com/a", "https://example.com/A", "https://example.com:80/", "http://example.com/", "x",
	} {
		if endpoints.Normal(url) == "https://example.com/" {
			t.Errorf("%s is taken for another", url)
		}
	}
}
