package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Each request is counted once, by its operation and its status, also the refused ones. A path that no operation has
// makes no series of its own, or a client could make up any number of them.
func TestRequestsAreMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	api := newAPIWith(t, &store{}, func(cfg *httpapi.Config) {
		cfg.Tokens, cfg.Metrics = secret.NewTokens("t"), registry
	})
	for _, request := range []struct{ method, path, token string }{
		{method: http.MethodGet, path: "/v1/stats", token: "t"},
		{method: http.MethodGet, path: "/v1/stats", token: "t"},
		{method: http.MethodGet, path: "/v1/stats", token: "wrong"},
		{method: http.MethodGet, path: "/v1/notifications/n-1", token: "wrong"},
		{method: http.MethodGet, path: "/made/up/1", token: "t"},
		{method: http.MethodGet, path: "/made/up/2", token: "t"},
		{method: http.MethodGet, path: "/docs"}, // no operation: not counted
	} {
		r := httptest.NewRequestWithContext(t.Context(), request.method, request.path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+request.token)
		api.ServeHTTP(httptest.NewRecorder(), r)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			if family.GetName() == "pacer_api_seconds" {
				got[strings.Join(labels, " ")] = metric.GetHistogram().GetSampleCount()
			}
		}
	}
	want := map[string]uint64{
		"200 GET /v1/stats": 2, "401 GET /v1/stats": 1, "401 GET /v1/notifications/{id}": 1, "404 none": 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests are counted otherwise (-want +got):\n%s", diff)
	}
}
