package endpoints_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

// stores are an empty store of endpoints, and the events that are written together with them.
type stores struct {
	*endpoints.Store
	events  events.Store
	records record.Store
}

// onEach runs a test on each kind of store.
func onEach(t *testing.T, run func(t *testing.T, s stores)) {
	t.Helper()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) { run(t, storesIn(s)) })
}

func storesIn(s recordtest.Store) stores { return stores{endpoints.NewStore(s), events.NewStore(s), s} }

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
		names = append(names, e.ID)
	}
	return strings.Join(names, " ")
}

// Everything of an endpoint comes back, and every URL is registered once.
func TestStoresKeepEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		ctx := t.Context()
		until := time.Now().Add(time.Hour)
		whole := &endpoints.Endpoint{
			ID: "ep_1", URL: "https://Example.com:443/ü?a=%20", Description: "Ünï",
			Headers: map[string]string{"X-A": "b\"c"}, Secret: secret.New("whsec_x"),
			Old: []endpoints.OldSecret{{Secret: secret.New("whsk_y"), Until: until}},
		}
		if err := s.Add(ctx, whole); err != nil {
			t.Fatal(err)
		}
		got := s.get(t, "ep_1")
		if got.Secret.Reveal() != "whsec_x" || len(got.Old) != 1 || got.Old[0].Secret.Reveal() != "whsk_y" ||
			!got.Old[0].Until.Equal(until) || got.URL != whole.URL || got.Description != "Ünï" ||
			got.Headers["X-A"] != "b\"c" || time.Since(got.CreatedAt).Abs() > time.Minute ||
			!got.CountsFrom.Equal(got.CreatedAt) {
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
		_, err := s.Change(ctx, "ep_2", func(e *endpoints.Endpoint, _ time.Time) ([]events.Event, error) {
			e.URL = "HTTPS://EXAMPLE.COM/ü?a=%20"
			return []events.Event{events.New(events.EndpointEnabled, e.ID, "")}, nil
		})
		taken(err)
		s.remove(t, "ep_1")
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
		page, err := s.List(ctx, "", 1)
		next, nextErr := s.List(ctx, "ep_2", 9)
		if err != nil || nextErr != nil || ids(page) != "ep_2" || ids(next) != "ep_4" {
			t.Errorf("the pages are %s and %s, %v, %v", ids(page), ids(next), err, nextErr)
		}
		if told := s.happened(t); len(told) != 0 {
			t.Errorf("events of changes that failed: %v", told)
		}
	})
}

func second[T any](_ T, err error) error { return err }

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
