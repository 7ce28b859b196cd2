package endpoints_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/internal/signing"
	"github.com/pacer-notify/pacer/test/redistest"
)

// After a fail-over that lost what a process had read, that process knows what the store has: also what was written
// before its next look.
func TestAFailOverThatLosesChangesIsNoticed(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(t *testing.T, s stores){
		"Registration": func(t *testing.T, s stores) { t.Helper(); s.add(t, "ep_1", hook) },
		"Move": func(t *testing.T, s stores) {
			t.Helper()
			_, err := s.Change(t.Context(), "ep_0", func(e *endpoints.Endpoint, _ time.Time) ([]events.Event, error) {
				e.URL = hook
				return nil, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Client(t)
			s := storesIn(recordtest.OnRedis(client))
			s.add(t, "ep_0", hook+"/0")
			p := newProcess(t, s, &clock{})
			replica := dump(t, client)
			lost(t, s)
			p.round(t)
			if _, _, ok := p.Registered(hook); !ok {
				t.Fatal("the change is not known before the fail-over")
			}
			restore(t, client, replica)
			s.add(t, "ep_2", hook+"/2")
			p.round(t)
			for url, want := range map[string]bool{hook: false, hook + "/0": true, hook + "/2": true} {
				if _, _, ok := p.Registered(url); ok != want {
					t.Errorf("after the fail-over %s is registered: %t, want %t", url, ok, want)
				}
			}
		})
	}
}

// After a fail-over that lost an endpoint, another one may have taken its URL: calls to the URL then have the signature
// and the headers of the other one.
func TestAURLPassesToAnotherEndpoint(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	s := storesIn(recordtest.OnRedis(client))
	s.add(t, "ep_1", hook)
	p := newProcess(t, s, &clock{})
	restore(t, client, nil)
	if err := s.Add(t.Context(), &endpoints.Endpoint{
		ID: "ep_2", URL: hook, Headers: map[string]string{"X-Of": "ep_2"}, Secret: signing.Generate(signing.HMAC),
	}); err != nil {
		t.Fatal(err)
	}
	p.round(t)
	if keys, header, ok := p.Registered(hook); !ok || len(keys) != 1 || header.Get("X-Of") != "ep_2" {
		t.Errorf("the URL is registered: %t, with %d keys and the headers %v; want those of ep_2", ok, len(keys), header)
	}
}

// dump is what a replica has that lags behind from now on.
func dump(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, key := range keys {
		if values[key], err = client.Dump(t.Context(), key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

// restore has a client's database hold what a replica had.
func restore(t *testing.T, client *redis.Client, replica map[string]string) {
	t.Helper()
	if err := client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for key, value := range replica {
		if err := client.Restore(t.Context(), key, 0, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
