package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/stats"
)

var update = flag.Bool("update", false, "write the golden files anew")

// store is an API's world that is reachable or away.
type store struct{ away error }

func (s *store) Accept(_ context.Context, batch []intake.Candidate) ([]intake.Result, error) {
	results := make([]intake.Result, len(batch))
	for i := range batch {
		results[i].Notification = &batch[i].Notification
	}
	return results, s.away
}

func (s *store) View(_ context.Context, id string) (*notification.View, error) {
	return &notification.View{Notification: notification.Notification{ID: id}}, s.away
}

func (s *store) Cancel(context.Context, string) error { return s.away }

func (s *store) Window(context.Context, string, string) (httpapi.Window, error) {
	return httpapi.Window{}, s.away
}

func (s *store) Clear(context.Context, string, string) error { return s.away }

func (s *store) Stats(context.Context) (stats.Counts, error) { return stats.Counts{}, s.away }

func (s *store) Processes(context.Context) ([]stats.Process, error) { return nil, s.away }

func (s *store) List(context.Context, notification.Filter) (*notification.Page, error) {
	return &notification.Page{}, s.away
}

func (s *store) Preferences(context.Context, string) (*notification.Preferences, error) {
	return &notification.Preferences{}, s.away
}

func (s *store) SetPreferences(context.Context, string, *notification.Preferences) error {
	return s.away
}

func (s *store) ClearPreferences(context.Context, string) error { return s.away }

func (s *store) PutDevice(context.Context, *notification.Device) error { return s.away }

func (s *store) Device(_ context.Context, userID, id string) (*notification.Device, error) {
	return &notification.Device{UserID: userID, ID: id}, s.away
}

func (s *store) DeleteDevice(context.Context, string, string) error { return s.away }

func (s *store) Devices(context.Context, string) ([]notification.Device, error) { return nil, s.away }

func (s *store) Deliveries(context.Context, *notification.Notification) ([]notification.Delivery, error) {
	return nil, s.away
}

// everyChannel is what the API is told of the channels.
func everyChannel() []httpapi.Channel {
	var all []httpapi.Channel
	for _, c := range (settings.Channels{}).All() {
		all = append(all, httpapi.Channel{Name: c.Name, OwnFormat: c.OwnFormat})
	}
	return all
}

func newAPI(t testing.TB, s *store) http.Handler {
	t.Helper()
	api, err := httpapi.New(httpapi.Config{
		Intake: s, Store: s, Throttle: s, Processes: s.Processes, List: s.List, Users: s, Devices: s, HasCategory: func(string) bool { return true }, Version: "test",
		Log: slog.New(slog.DiscardHandler), Channels: everyChannel(),
	})
	if err != nil {
		t.Fatalf("new API: %v", err)
	}
	return api
}

func call(api http.Handler, method, path, contentType string, body io.Reader) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), method, path, body)
	request.Header.Set("Content-Type", contentType)
	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, request)
	return answer
}

// operations of the contract, each with a body that is taken.
var operations = []struct{ method, path, template, contentType, body string }{
	{"POST", "/v1/notifications", "/v1/notifications", "application/json", `{"user_id":"ada"}`},
	{"POST", "/v1/notifications/bulk", "/v1/notifications/bulk", "application/x-ndjson", `{"user_id":"ada"}`},
	{"GET", "/v1/notifications/n1", "/v1/notifications/{id}", "", ""},
	{"DELETE", "/v1/notifications/n1", "/v1/notifications/{id}", "", ""},
	{"GET", "/v1/users/ada/throttle", "/v1/users/{user}/throttle", "", ""},
	{"DELETE", "/v1/users/ada/throttle", "/v1/users/{user}/throttle", "", ""},
	{"GET", "/v1/stats", "/v1/stats", "", ""},
	{"GET", "/v1/notifications?user_id=ada&status=deferred&limit=5", "/v1/notifications", "", ""},
	{"GET", "/v1/users/ada/preferences", "/v1/users/{user}/preferences", "", ""},
	{"PUT", "/v1/users/ada/preferences", "/v1/users/{user}/preferences", "application/json", `{"opt_out":{"categories":["chat"]}}`},
	{"DELETE", "/v1/users/ada/preferences", "/v1/users/{user}/preferences", "", ""},
	{"GET", "/v1/users/ada/devices", "/v1/users/{user}/devices", "", ""},
	{"GET", "/v1/users/ada/devices/phone", "/v1/users/{user}/devices/{device}", "", ""},
	{"PUT", "/v1/users/ada/devices/phone", "/v1/users/{user}/devices/{device}", "application/json", `{"channel":"webhook","to":"https://example.com"}`},
	{"DELETE", "/v1/users/ada/devices/phone", "/v1/users/{user}/devices/{device}", "", ""},
}

func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	answer := call(newAPI(t, &store{}), http.MethodGet, "/openapi.json", "", nil)
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Responses map[string]any
		}
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &document); err != nil {
		t.Fatalf("read the document: %v", err)
	}
	if !strings.HasPrefix(document.OpenAPI, "3.1.") {
		t.Errorf("version %s, want 3.1", document.OpenAPI)
	}
	var described, wanted []string
	for path, item := range document.Paths {
		for method, operation := range item {
			described = append(described, strings.ToUpper(method)+" "+path)
			if _, ok := operation.Responses["503"]; !ok {
				t.Errorf("%s %s does not say that it may answer 503", method, path)
			}
		}
	}
	for _, o := range operations {
		wanted = append(wanted, o.method+" "+o.template)
	}
	slices.Sort(described)
	slices.Sort(wanted)
	if diff := cmp.Diff(wanted, described); diff != "" {
		t.Errorf("operations (-want +described):\n%s", diff)
	}

	var pretty bytes.Buffer
	if err := json.Indent(&pretty, answer.Body.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	golden := filepath.Join("..", "..", "docs", "openapi.json")
	if *update {
		if err := os.WriteFile(golden, pretty.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), pretty.String()); diff != "" {
		t.Errorf("docs/openapi.json is not current; run this test with -update:\n%s", diff)
	}
}

func TestDocumentationPageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	answer := call(newAPI(t, &store{}), http.MethodGet, "/docs", "", nil)
	page := answer.Body.String()
	for _, o := range operations {
		if !strings.Contains(page, o.method+" "+o.template) {
			t.Errorf("the page does not show %s %s", o.method, o.template)
		}
	}
	for _, foreign := range []string{"<script", "src=", "@import", "//cdn"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page holds %q", foreign)
		}
	}
	if policy := answer.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("content security policy %q", policy)
	}
}

func TestStoreAwayIs503WithRetryAfter(t *testing.T) {
	t.Parallel()
	api := newAPI(t, &store{away: errors.New("canary: the store's own words")})
	for _, o := range operations {
		answer := call(api, o.method, o.path, o.contentType, strings.NewReader(o.body))
		if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s: status %d, Retry-After %q", o.method, o.path, answer.Code, answer.Header().Get("Retry-After"))
		}
		if got := answer.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s %s: content type %q", o.method, o.path, got)
		}
		if strings.Contains(answer.Body.String(), "canary") {
			t.Errorf("%s %s tells the client what only the log should know: %s", o.method, o.path, answer.Body)
		}
	}
}

// Whatever a body holds, the answer is an acceptance or a problem, never a fault of ours.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"user_id":"ada"}`, `{"user_id":"ada","data":{"a":[1,2,{"b":null}]},"send_at":"2026-01-02T15:04:05Z"}`, `{"user_id":1e999}`,
		`[{"user_id":"ada"},5]`, "{\"user_id\":\"\xff\"}", `{"data":"x"}`, `{"user_id":"\ud800"}`, "", "null", `{"":0}`,
	} {
		f.Add(seed)
	}
	api := newAPI(f, &store{})
	f.Fuzz(func(t *testing.T, body string) {
		for _, o := range operations[:2] {
			for _, contentType := range []string{"application/json", o.contentType} {
				answer := call(api, o.method, o.path, contentType, strings.NewReader(body))
				if answer.Code >= http.StatusInternalServerError {
					t.Fatalf("%s answers %d to %q: %s", o.path, answer.Code, body, answer.Body)
				}
				if !json.Valid(answer.Body.Bytes()) {
					t.Fatalf("%s answers no JSON to %q: %s", o.path, body, answer.Body)
				}
			}
		}
	})
}
