package app_test

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is an OTLP collector.
type spans struct {
	mu  sync.Mutex
	all []*otlp.Span
	raw []byte
	// metrics are the names of those that were exported.
	metrics map[string]bool
}

// takeMetrics notes the names of exported metrics.
func (s *spans) takeMetrics(body []byte) error {
	var request metrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				s.metrics[attribute(resource.Resource.Attributes, "service.name")+" "+m.Name] = true
			}
		}
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/v1/metrics" && s.takeMetrics(body) == nil {
		return
	}
	var request traces.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = append(s.raw, body...)
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			s.all = append(s.all, scope.Spans...)
		}
	}
}

// of returns the spans of a notification, or all with "".
func (s *spans) of(id string) (found []*otlp.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		if id == "" || attribute(span.Attributes, "pacer.notification_id") == id {
			found = append(found, span)
		}
	}
	slices.SortFunc(found, func(a, b *otlp.Span) int {
		return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano))
	})
	return found
}

func attribute(all []*common.KeyValue, key string) string {
	for _, a := range all {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// tracedMarker has this program run as the one that is traced.
const tracedMarker = "PACER_TEST_TRACED"

// TestTraces runs the test that is traced in a process of its own: the environment says where to.
func TestTraces(t *testing.T) {
	t.Parallel()
	if os.Getenv(tracedMarker) != "" {
		t.Skip("this is the process that is traced")
	}
	s := &spans{metrics: map[string]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	traced := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTraced$", "-test.v")
	traced.Env = append(os.Environ(), tracedMarker+"=yes", "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL)
	if out, err := traced.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestTraced") {
		t.Fatalf("%v\n%s", err, out)
	}
	checkTrace(t, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range []string{"pacer_deferred_oldest_seconds", "pacer_deliveries_total", "go_goroutines"} {
		if !s.metrics["pacer "+name] {
			t.Errorf("metric %s is not among the %d that were exported", name, len(s.metrics))
		}
	}
	if strings.Contains(string(s.raw), "canary content") {
		t.Error("the traces tell the content")
	}
}

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// tracedPolicy has the second of two wait.
const tracedPolicy = `
version: 1
categories:
  default: {limits: []}
  drip: {limits: [{max: 1, per: 1500ms}]}
`

// TestTraced is what TestTraces looks at: two for a user who may have one a second and a half.
func TestTraced(t *testing.T) {
	t.Parallel()
	if os.Getenv(tracedMarker) == "" {
		t.Skip("it runs in a process of its own, started by TestTraces")
	}
	d, r := newDeployment(t, onRedis, tracedPolicy, 1), newReceiver(t)
	var both []item // in one request: after a pause between two, the second might not have to wait
	for _, id := range []string{"first", "second"} {
		both = append(both, item{
			"id": id, "user_id": "ada", "category": "drip", "to": r.server.URL, "title": "canary content",
		})
	}
	body, err := json.Marshal(both)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Traceparent": {"00-" + traceID + "-00f067aa0ba902b7-01"}}
	if status := d.call(http.MethodPost, "/v1/notifications/bulk", body, header, nil); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	d.awaitStats("both delivered", func(s stats) bool { return s.Totals.Delivered == 2 })
}

// isLate reports whether a delivery went back unsent because its grant came late, as on a busy machine. After that the
// notification is admitted anew.
func isLate(span *otlp.Span) bool { return attribute(span.Attributes, "pacer.outcome") == "late" }

// checkTrace: all of a notification is in its producer's trace, in spans of their own that are linked to its
// acceptance.
func checkTrace(t *testing.T, s *spans) {
	t.Helper()
	var names []string
	var accepted *otlp.Span
	for _, span := range s.of("second") {
		if !isLate(span) {
			names = append(names, span.Name)
		}
		if got := hexOf(span.TraceId); got != traceID {
			t.Errorf("%s is in trace %s", span.Name, got)
		}
		switch span.Name {
		case "pacer accept":
			accepted = span
			if hexOf(span.ParentSpanId) != "00f067aa0ba902b7" {
				t.Errorf("it was accepted under %x", span.ParentSpanId)
			}
			continue
		case "pacer deferred":
			lasted := time.Duration(span.EndTimeUnixNano - span.StartTimeUnixNano)
			if lasted < time.Second || attribute(span.Attributes, "pacer.rule") != "limit 1/1.5s" {
				t.Errorf("it was deferred for %s by %v", lasted, span.Attributes)
			}
		case "pacer deliver":
			if attribute(span.Attributes, "pacer.outcome") != "delivered" && !isLate(span) {
				t.Errorf("its delivery ended as %v", span.Attributes)
			}
		}
		if accepted == nil || len(span.Links) != 1 || string(span.Links[0].SpanId) != string(accepted.SpanId) {
			t.Errorf("%s is not linked to its acceptance: %v", span.Name, span.Links)
		}
	}
	names = slices.Compact(names) // each grant has a span of its deferral
	if want := []string{"pacer accept", "pacer deferred", "pacer deliver"}; !slices.Equal(names, want) {
		t.Errorf("the spans are %v, want %v", names, want)
	}
	count := map[string]int{}
	for _, span := range s.of("") {
		count[span.Name]++
	}
	if count["pacer send"] != count["pacer deliver"] || count["pacer decide"] != count["pacer deliver"] {
		t.Errorf("the spans are %v", count)
	}
}

func hexOf(id []byte) string { return hex.EncodeToString(id) }
