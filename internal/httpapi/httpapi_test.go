package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/feedback"
	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/test/transcript"
)

// store is everything that the API needs. It is reachable, or fails with away.
type store struct{ away error }

func (s *store) Accept(_ context.Context, batch []intake.Request) ([]intake.Result, error) {
	results := make([]intake.Result, len(batch))
	for i := range batch {
		results[i].Notification = &batch[i].Notification
	}
	return results, s.away
}

func (s *store) View(_ context.Context, id string) (*notification.View, error) {
	return &notification.View{Notification: notification.Notification{ID: id}}, s.away
}

func (s *store) User(_ context.Context, userID string) (*desk.User, error) {
	if s.away == nil && userID == "n1" {
		return nil, &desk.NotThisError{Asked: userID}
	}
	return &desk.User{UserID: userID}, s.away
}

func (s *store) Cancel(context.Context, string) error { return s.away }

func (s *store) CancelGroup(context.Context, string, string) (int, error) { return 0, s.away }

func (s *store) Change(context.Context, string, notification.Change) error { return s.away }

func (s *store) Window(context.Context, string, string) (httpapi.Window, error) {
	return httpapi.Window{}, s.away
}

func (s *store) Clear(context.Context, string, string) error { return s.away }

func (s *store) Stats(context.Context) (stats.Counts, error) { return stats.Counts{}, s.away }

func (s *store) History(context.Context, time.Time, time.Time) ([]stats.Hour, error) {
	return nil, s.away
}

func (s *store) Processes(context.Context) ([]stats.Process, error) { return nil, s.away }

func (s *store) List(context.Context, notification.Filter) (*notification.Page, error) {
	return &notification.Page{}, s.away
}

func (s *store) Preferences(context.Context, string) (*notification.Preferences, error) {
	return &notification.Preferences{Version: 7}, s.away
}

func (s *store) SetPreferences(_ context.Context, _ string, p *notification.Preferences, was int64) error {
	if was != notification.AnyVersion && was != 7 {
		return notification.ErrPreferencesChanged
	}
	p.Version = 8
	return s.away
}

func (s *store) ClearPreferences(context.Context, string) error { return s.away }

func (s *store) CheckPreferences(*notification.Preferences) error { return nil }

func (s *store) SetManyPreferences(context.Context, map[string]*notification.Preferences) error {
	return s.away
}

func (s *store) PutDevice(context.Context, *notification.Device) error { return s.away }

func (s *store) Device(_ context.Context, userID, id string) (*notification.Device, error) {
	return &notification.Device{UserID: userID, ID: id}, s.away
}

func (s *store) DeleteDevice(context.Context, string, string) error { return s.away }

func (s *store) Devices(context.Context, string) ([]notification.Device, error) { return nil, s.away }

func (s *store) Deliveries(context.Context, *notification.Notification) ([]notification.Delivery, error) {
	return nil, s.away
}

func (s *store) OptedOut(context.Context, string) (feedback.Link, bool, error) {
	return feedback.Link{}, false, s.away
}

func (s *store) OptOut(context.Context, string) (feedback.Link, error) {
	return feedback.Link{}, s.away
}

func (s *store) OptIn(context.Context, string) (feedback.Link, error) { return feedback.Link{}, s.away }

func (s *store) Take(context.Context, []byte) (feedback.Result, error) {
	return feedback.Result{}, s.away
}

// everyChannel lists all channels for the API.
func everyChannel() []httpapi.Channel {
	var all []httpapi.Channel
	for _, c := range (settings.Channels{}).All() {
		all = append(all, httpapi.Channel{Name: c.Name, OwnFormat: c.OwnFormat})
	}
	return all
}

func names() desk.Names {
	return desk.Names{Categories: []string{"default", "chat"}, Channels: []string{"log", "webhook"}}
}

func newAPI(t testing.TB, s *store) http.Handler {
	t.Helper()
	return newAPIWith(t, s, func(*httpapi.Config) {})
}

// newAPIWith makes an API with other settings.
func newAPIWith(t testing.TB, s *store, change func(*httpapi.Config)) http.Handler {
	t.Helper()
	cfg := httpapi.Config{
		Intake: s, Store: s, Desk: s, Throttle: s, Processes: s.Processes, List: s.List, Users: s, Devices: s,
		Inbox: s, Endpoints: endpointStore{s}, Events: endpointStore{s}, Names: names,
		CheckCategory: func(string) error { return nil }, Version: "unreleased",
		Log: slog.New(slog.DiscardHandler), Channels: everyChannel(),
	}
	change(&cfg)
	api, err := httpapi.New(cfg)
	if err != nil {
		t.Fatalf("new API: %v", err)
	}
	return api
}

func call(api http.Handler, method, path, contentType string, body io.Reader) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), method, path, body)
	request.Header.Set("Content-Type", contentType)
	response := httptest.NewRecorder()
	api.ServeHTTP(response, request)
	return response
}

// Of a repeat whose notification is forgotten nobody may know any more when it was accepted. The response does not make
// a moment up, nor say that the notification is yet to come.
func TestARepeatWhoseAcceptanceIsForgottenNamesNoMoment(t *testing.T) {
	t.Parallel()
	response := call(newAPI(t, &store{}), http.MethodPost, "/v1/notifications", "application/json",
		strings.NewReader(`{"user_id":"ada","send_at":"2026-01-02T15:04:05Z"}`))
	var view map[string]any
	if err := json.Unmarshal(response.Body.Bytes(), &view); err != nil {
		t.Fatal(err)
	}
	if at, said := view["created_at"]; said || view["status"] != "queued" {
		t.Errorf("it is %v, created at %v; want it queued, and no moment", view["status"], at)
	}
}

// operation is a request that the API accepts, and the path template of its operation.
type operation struct{ method, path, template, contentType, body string }

// operations has one request for each operation.
var operations = []operation{
	{
		method: "POST", path: "/v1/notifications", template: "/v1/notifications",
		contentType: "application/json", body: `{"user_id":"ada"}`,
	},
	{
		method: "POST", path: "/v1/notifications/bulk", template: "/v1/notifications/bulk",
		contentType: "application/x-ndjson", body: `{"user_id":"ada"}`,
	},
	{method: "GET", path: "/v1/notifications/n1", template: "/v1/notifications/{id}"},
	{method: "DELETE", path: "/v1/notifications/n1", template: "/v1/notifications/{id}"},
	{method: "DELETE", path: "/v1/notifications?user=ada&group_key=k", template: "/v1/notifications"},
	{
		method: "PATCH", path: "/v1/notifications/n1", template: "/v1/notifications/{id}",
		contentType: "application/json", body: `{"priority":"high"}`,
	},
	{method: "POST", path: "/v1/notifications/n1/release", template: "/v1/notifications/{id}/release"},
	{method: "GET", path: "/v1/users/ada", template: "/v1/users/{user}"},
	{method: "GET", path: "/v1/users/ada/throttle", template: "/v1/users/{user}/throttle"},
	{method: "DELETE", path: "/v1/users/ada/throttle", template: "/v1/users/{user}/throttle"},
	{method: "GET", path: "/v1/stats", template: "/v1/stats"},
	{method: "GET", path: "/v1/history?since=7d", template: "/v1/history"},
	{method: "GET", path: "/v1/notifications?user_id=ada&status=deferred&limit=5", template: "/v1/notifications"},
	{method: "GET", path: "/v1/users/ada/preferences", template: "/v1/users/{user}/preferences"},
	{
		method: "PUT", path: "/v1/users/ada/preferences", template: "/v1/users/{user}/preferences",
		contentType: "application/json", body: `{"opt_out":{"categories":["chat"]}}`,
	},
	{method: "DELETE", path: "/v1/users/ada/preferences", template: "/v1/users/{user}/preferences"},
	{method: "GET", path: "/v1/users/ada/devices", template: "/v1/users/{user}/devices"},
	{method: "GET", path: "/v1/users/ada/devices/phone", template: "/v1/users/{user}/devices/{device}"},
	{
		method: "PUT", path: "/v1/users/ada/devices/phone", template: "/v1/users/{user}/devices/{device}",
		contentType: "application/json", body: `{"channel":"webhook","to":"https://example.com"}`,
	},
	{method: "DELETE", path: "/v1/users/ada/devices/phone", template: "/v1/users/{user}/devices/{device}"},
	{
		method: "POST", path: "/v1/email/bounces", template: "/v1/email/bounces", contentType: "message/rfc822",
		body: "Subject: x\r\n\r\n",
	},
	{
		method: "POST", path: "/v1/webhook-endpoints", template: "/v1/webhook-endpoints",
		contentType: "application/json", body: `{"url":"https://example.com"}`,
	},
	{method: "GET", path: "/v1/webhook-endpoints", template: "/v1/webhook-endpoints"},
	{method: "GET", path: "/v1/webhook-endpoints/e", template: "/v1/webhook-endpoints/{id}"},
	{
		method: "PATCH", path: "/v1/webhook-endpoints/e", template: "/v1/webhook-endpoints/{id}",
		contentType: "application/json", body: `{"description":"x"}`,
	},
	{method: "DELETE", path: "/v1/webhook-endpoints/e", template: "/v1/webhook-endpoints/{id}"},
	{method: "GET", path: "/v1/webhook-endpoints/e/secret", template: "/v1/webhook-endpoints/{id}/secret"},
	{method: "POST", path: "/v1/webhook-endpoints/e/rotate", template: "/v1/webhook-endpoints/{id}/rotate"},
	{method: "POST", path: "/v1/webhook-endpoints/e/enable", template: "/v1/webhook-endpoints/{id}/enable"},
	{method: "GET", path: "/v1/events?after=3", template: "/v1/events"},
}

func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	response := call(newAPI(t, &store{}), http.MethodGet, "/openapi.json", "", nil)
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Responses map[string]any
		}
	}
	if err := json.Unmarshal(response.Body.Bytes(), &document); err != nil {
		t.Fatalf("read the document: %v", err)
	}
	if !strings.HasPrefix(document.OpenAPI, "3.1.") {
		t.Errorf("version %s, want 3.1", document.OpenAPI)
	}
	var described, wanted []string
	for path, item := range document.Paths {
		for method, operation := range item {
			described = append(described, strings.ToUpper(method)+" "+path)
			if _, ok := operation.Responses["503"]; !ok && path != "/v1/webpush/key" { // which asks no store
				t.Errorf("%s %s does not say that it may respond with 503", method, path)
			}
		}
	}
	for _, o := range operations {
		wanted = append(wanted, o.method+" "+o.template)
	}
	wanted = append(wanted, "GET /v1/webpush/key", "GET /v1/unsubscribe/{token}", "POST /v1/unsubscribe/{token}",
		"POST /v1/preferences/bulk")
	slices.Sort(described)
	slices.Sort(wanted)
	if diff := cmp.Diff(wanted, described); diff != "" {
		t.Errorf("operations (-want +described):\n%s", diff)
	}

	var pretty bytes.Buffer
	if err := json.Indent(&pretty, response.Body.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	transcript.Equal(t, "../../docs/openapi.json", pretty.String())
}

func TestStoreAwayIs503WithRetryAfter(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{away: errors.New("canary: the store's own words")})
	for _, o := range operations {
		t.Run(o.method+" "+o.template, func(t *testing.T) {
			t.Parallel()
			response := call(api, o.method, o.path, o.contentType, strings.NewReader(o.body))
			wait := response.Header().Get("Retry-After")
			if response.Code != http.StatusServiceUnavailable || wait == "" {
				t.Errorf("status %d, Retry-After %q", response.Code, wait)
			}
			if got := response.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("content type %q", got)
			}
			if strings.Contains(response.Body.String(), "canary") {
				t.Errorf("the client learns what only the log should say: %s", response.Body)
			}
		})
	}
}

// Whatever a body holds, the response is an acceptance or a problem, never an internal error.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"user_id":"ada"}`, `{"user_id":"ada","data":{"a":[1,2,{"b":null}]},"send_at":"2026-01-02T15:04:05Z"}`,
		`{"user_id":1e999}`, `[{"user_id":"ada"},5]`, "{\"user_id\":\"\xff\"}", `{"data":"x"}`, `{"user_id":"\ud800"}`,
		"", "null", `{"":0}`,
	} {
		f.Add(seed)
	}
	api := newAPI(f, &store{})
	f.Fuzz(func(t *testing.T, body string) {
		for _, o := range operations[:2] {
			for _, contentType := range []string{"application/json", o.contentType} {
				response := call(api, o.method, o.path, contentType, strings.NewReader(body))
				if response.Code >= http.StatusInternalServerError {
					t.Fatalf("%s responds with %d to %q: %s", o.path, response.Code, body, response.Body)
				}
				if !json.Valid(response.Body.Bytes()) {
					t.Fatalf("%s responds without JSON to %q: %s", o.path, body, response.Body)
				}
			}
		}
	})
}
