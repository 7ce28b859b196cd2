package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/signing"
)

// quickRetry tries again at once, as often as it takes.
const quickRetry = "version: 1\ncategories:\n  default: {limits: []}\n" +
	"retry: {max_attempts: 100, min_backoff: 100ms, max_backoff: 200ms}\n"

// eventListener is a receiver that verifies what it gets, and keeps the bodies.
type eventListener struct {
	server *httptest.Server
	mu     sync.Mutex
	got    []events.Event
}

func newEventListener(t *testing.T, key string) *eventListener {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	l := &eventListener{}
	l.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var told struct{ Events []events.Event }
		if err := verifier.Verify(body, r.Header); err != nil || json.Unmarshal(body, &told) != nil {
			t.Errorf("an event that does not verify: %v: %s", err, body)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got = append(l.got, told.Events...)
	}))
	t.Cleanup(l.server.Close)
	return l
}

// types lists what it got.
func (l *eventListener) types() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, e := range l.got {
		all = append(all, e.Type+" "+e.EndpointID)
	}
	return strings.Join(all, ", ")
}

// endpointShown is what the API shows of an endpoint.
type endpointShown struct {
	ID     string
	Health struct {
		State  string
		Reason string `json:"disabled_reason"`
	}
}

// Two workers deliver to an endpoint that only fails, for as long as the setting says. It is disabled; what is for it
// fails unsent and counts against nobody; everybody is told in words and by one event. Enabled, it is called again,
// with its own key and headers.
func TestWebhookEndpointFromRegistrationToTheEvent(t *testing.T) {
	t.Parallel()
	eventKey, key := signing.Generate(signing.HMAC).Reveal(), signing.Generate(signing.HMAC).Reveal()
	listener, r := newEventListener(t, eventKey), newReceiver(t)
	d := newDeployment(t, onPostgres, quickRetry, 0)
	for range 2 {
		s := d.settings()
		s.WebhookDisableAfter = 2 * time.Second
		s.Events = settings.Events{
			Receivers: []string{listener.server.URL}, Keys: signing.NewRing(keysOf(t, eventKey)),
		}
		d.startWith(s)
	}
	var fails, verified sync.Map
	fails.Store("", true)
	r.server.Config.Handler = endpointHandler(t, key, &fails, &verified)
	body := `{"id":"acme","url":"` + r.server.URL + `/hook","secret":"` + key + `","headers":{"X-Tenant":"7"}}`
	var shown endpointShown
	if status := d.call(http.MethodPost, "/v1/webhook-endpoints", []byte(body), nil, &shown); status != 201 {
		t.Fatalf("registered with %d", status)
	}
	d.bulk(toHook(r, 40))
	look := func() endpointShown {
		d.call(http.MethodGet, "/v1/webhook-endpoints/acme", nil, nil, &shown)
		return shown
	}
	d.eventually("it is disabled", func() bool { return look().Health.State == "disabled" })
	if !strings.Contains(shown.Health.Reason, "503") {
		t.Errorf("it is disabled because of %q", shown.Health.Reason)
	}
	counts := d.awaitStats("all have failed", func(s stats) bool { return s.Totals.Failed == 40 })
	if counts.Totals.Delivered != 0 {
		t.Errorf("%+v", counts.Totals)
	}
	id := d.bulk(toHook(r, 1))[0]
	d.awaitStats("the next fails too", func(s stats) bool { return s.Totals.Failed == 41 })
	if v := d.view(id); v.Reason != "permanent: endpoint_disabled" {
		t.Errorf("it failed because of %q", v.Reason)
	}
	d.eventually("the event", func() bool { return listener.types() == "endpoint.disabled acme" })
	fails.Delete("")
	if status := d.call(http.MethodPost, "/v1/webhook-endpoints/acme/enable", nil, nil, &shown); status != 200 {
		t.Fatalf("enabled with %d", status)
	}
	d.eventually("it is called again", func() bool {
		d.bulk(toHook(r, 1))
		_, ok := verified.Load("7")
		return ok
	})
	d.eventually("both events, once", func() bool {
		return listener.types() == "endpoint.disabled acme, endpoint.enabled acme"
	})
	var list struct{ Events []events.Event }
	if d.call(http.MethodGet, "/v1/events?after=1", nil, nil, &list); len(list.Events) != 1 ||
		list.Events[0].ID != listener.got[1].ID {
		t.Errorf("the list has %+v", list.Events)
	}
}

func keysOf(t *testing.T, text string) signing.Keys {
	t.Helper()
	keys, err := signing.ParseAll([]secret.Secret{secret.New(text)})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// endpointHandler fails while it is told so, and notes the X-Tenant of calls that verify.
func endpointHandler(t *testing.T, key string, fails, verified *sync.Map) http.Handler {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if _, ok := fails.Load(""); ok {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("a call that does not verify: %v", err)
		}
		verified.Store(r.Header.Get("X-Tenant"), true)
	})
}

func toHook(r *receiver, n int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = item{"user_id": "ada", "to": r.server.URL + "/hook", "title": "x"}
	}
	return items
}
