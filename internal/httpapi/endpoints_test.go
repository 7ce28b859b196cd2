package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/secret"
)

// endpointStore has one endpoint with secrets, e.
type endpointStore struct{ *store }

const sharedSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func (s endpointStore) one(id string) (*endpoints.Endpoint, error) {
	switch {
	case s.away != nil:
		return nil, s.away
	case id != "e":
		return nil, endpoints.ErrNotFound
	}
	return &endpoints.Endpoint{
		ID: "e", URL: "https://example.com/hook", Secret: secret.New(sharedSecret),
		Old:     []endpoints.OldSecret{{Secret: secret.New(sharedSecret)}},
		Headers: map[string]string{"X-B": "canary", "Authorization": "Bearer canary"},
	}, nil
}

// Create returns e, unless its description asks for a refusal.
func (s endpointStore) Create(_ context.Context, f endpoints.Form) (*endpoints.Endpoint, error) {
	if f.Description == nil {
		return s.one("e")
	}
	return nil, map[string]error{
		"taken": &endpoints.TakenError{ID: "e", Field: "url"}, "many": endpoints.ErrTooMany,
		"wrong": &notification.FieldError{Field: "headers", Message: "is wrong"},
	}[*f.Description]
}

func (s endpointStore) Get(_ context.Context, id string) (*endpoints.Endpoint, error) {
	return s.one(id)
}

func (s endpointStore) List(context.Context, string, int) ([]endpoints.Endpoint, error) {
	e, err := s.one("e")
	if err != nil {
		return nil, err
	}
	return []endpoints.Endpoint{*e}, nil
}

func (s endpointStore) Update(_ context.Context, id string, _ endpoints.Form) (*endpoints.Endpoint, error) {
	return s.one(id)
}

func (s endpointStore) Rotate(_ context.Context, id string, _ endpoints.Form) (*endpoints.Endpoint, error) {
	return s.one(id)
}

func (s endpointStore) Enable(_ context.Context, id string) (*endpoints.Endpoint, error) {
	return s.one(id)
}

func (s endpointStore) Remove(_ context.Context, id string) error {
	_, err := s.one(id)
	return err
}

// After implements [httpapi.Events].
func (s endpointStore) After(_ context.Context, sequence int64, _ int) ([]events.Event, error) {
	return []events.Event{{ID: "x", Sequence: sequence + 1, Type: events.EndpointDisabled, EndpointID: "e"}}, s.away
}

// A secret and the values of headers are shown by no call, but for the one that asks for the secret.
func TestEndpointsDoNotShowTheirSecrets(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for _, o := range operations {
		if !strings.HasPrefix(o.template, "/v1/webhook-endpoints") {
			continue
		}
		response := call(api, o.method, o.path, o.contentType, strings.NewReader(o.body))
		body := response.Body.String()
		asked := strings.HasSuffix(o.path, "/secret")
		if response.Code >= 300 || strings.Contains(body, sharedSecret) != asked || strings.Contains(body, "canary") {
			t.Errorf("%s %s gives %d %s", o.method, o.path, response.Code, body)
		}
		if asked && response.Header().Get("Cache-Control") != "no-store" {
			t.Error("the secret may be kept by caches")
		}
	}
}

func TestEndpointRefusals(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{})
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"Taken":   {"POST", "", `{"url":"u","description":"taken"}`, 409},
		"Many":    {"POST", "", `{"url":"u","description":"many"}`, 409},
		"Wrong":   {"POST", "", `{"url":"u","description":"wrong"}`, 422},
		"Unknown": {"GET", "/x", "", 404},
		"Removed": {"DELETE", "/x", "", 404},
		"Field":   {"PATCH", "/e", `{"secret":"x"}`, 422},
		"Method":  {"PUT", "/e", `{}`, 405},
	} {
		response := call(api, c.method, "/v1/webhook-endpoints"+c.path, "application/json", strings.NewReader(c.body))
		var problem struct{ Detail string }
		if err := json.Unmarshal(response.Body.Bytes(), &problem); err != nil || response.Code != c.status ||
			problem.Detail == "" {
			t.Errorf("%s: %d %s, want %d", name, response.Code, response.Body, c.status)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	response := call(newAPI(t, &store{}), http.MethodGet, "/v1/events?after=41", "", nil)
	want := `"sequence":42,"type":"endpoint.disabled","at":"0001-01-01T00:00:00Z","endpoint_id":"e"`
	if body := fmt.Sprint(response.Body); response.Code != http.StatusOK || !strings.Contains(body, want) {
		t.Errorf("%d %s", response.Code, body)
	}
}
