package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
	"github.com/pacer-notify/pacer/test/transcript"
)

const examplesFile = "internal/httpapi/examples.json"

// example is a call of the API and its response, as the OpenAPI document shows it.
type example struct {
	// Name is that of an example which is shown beside others.
	Name      string `json:"name,omitempty"`
	Operation string `json:"operation"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Type      string `json:"type,omitempty"`
	// Request is the body; a JSON string where the body is not JSON.
	Request json.RawMessage `json:"request,omitempty"`
	// Until repeats the call until these members of the response have these values.
	Until    map[string]any  `json:"until,omitempty"`
	Status   int             `json:"status"`
	Response json.RawMessage `json:"response,omitempty"`
}

// examplesPolicy lets the second of a user's chat messages wait for as long as the test runs.
const examplesPolicy = `version: 1
categories:
  default: {limits: [{max: 10, per: 1m}]}
  chat: {limits: [{max: 1, per: 1h}]}
  bulletin: {limits: [{max: 1000, per: 1h}]}
`

// TestAPIExamplesAreTrue makes every call of the examples that /docs and /openapi.json show, in their order, and
// compares the responses. With -update it writes those that differ.
func TestAPIExamplesAreTrue(t *testing.T) {
	t.Parallel()
	var examples []example
	if err := json.Unmarshal([]byte(readFile(t, examplesFile)), &examples); err != nil {
		t.Fatal(err)
	}
	var api string
	for made := false; !made; made = makeAll(t, api, examples) {
		api = serve(t, "DATABASE_URL="+postgrestest.URL(t), "REDIS_URL="+redistest.URL(t),
			"PACER_PUBLIC_URL=https://notify.example.com", "PACER_UNSUBSCRIBE_KEY=the key of the examples which is no secret",
			"PACER_WEBPUSH_KEY=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE", "PACER_WEBPUSH_SUBJECT=mailto:ops@example.com")
	}
	if transcript.Updating() {
		write(t, examples)
	}
	everyOperationHasAnExample(t, api, examples)
}

// makeAll makes the calls in a new deployment. It returns false when they must be made in another: a call was refused,
// had been carried out all the same, and its repeat got another response.
func makeAll(t *testing.T, api string, examples []example) bool {
	t.Helper()
	for i := range examples {
		e := &examples[i]
		status, response, repeated := e.call(t, api)
		diff := cmp.Diff(steady(t, e, e.Response), steady(t, e, response))
		if repeated && (status != e.Status || diff != "") {
			t.Logf("%s %s: a repeat got status %d; all calls are made anew: %s", e.Method, e.Path, status, response)
			return false
		}
		if status != e.Status {
			t.Errorf("%s %s: status %d, want %d: %s", e.Method, e.Path, status, e.Status, response)
		}
		if transcript.Updating() && diff != "" { // else only times differ
			e.Response, diff = response, ""
		}
		if diff != "" {
			t.Errorf("%s %s: the response in %s is not what comes; make docs writes it anew (-shown +came):\n%s", e.Method,
				e.Path, examplesFile, diff)
		}
	}
	return true
}

// call makes the call, again while it is refused for now, or the response is partial, or not yet what the example waits
// for. It reports whether a change was repeated.
func (e *example) call(t *testing.T, api string) (status int, response json.RawMessage, repeated bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	body := []byte(e.Request)
	var text string
	if json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	for {
		status, response = request(ctx, t, e.Method, api+e.Path, e.Type, body)
		if len(response) > 0 && !json.Valid(response) { // a page for people
			var err error
			if response, err = json.Marshal(string(response)); err != nil {
				t.Fatal(err)
			}
		}
		var members map[string]any
		_ = json.Unmarshal(response, &members) // other responses have none
		if status == http.StatusServiceUnavailable {
			repeated = repeated || e.Method != http.MethodGet
		} else if partial, _ := members["partial"].(bool); !partial && has(members, e.Until) {
			return status, response, repeated
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s %s does not come to %v: status %d: %s", e.Method, e.Path, e.Until, status, response)
		}
	}
}

func has(members, wanted map[string]any) bool {
	for name, value := range wanted {
		if !cmp.Equal(members[name], value) {
			return false
		}
	}
	return true
}

func request(ctx context.Context, t *testing.T, method, url, contentType string, body []byte) (int, json.RawMessage) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	response, err := apitest.Once.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, bytes.TrimSpace(reply)
}

var (
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)
	madeID  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}`)
)

// steady is a response without what differs from run to run: times and ids that were made, and the numbers of figures.
// Of a problem only the form is compared: its words belong to the tests of messages.
func steady(t *testing.T, e *example, response json.RawMessage) any {
	t.Helper()
	if len(response) == 0 {
		return nil
	}
	var value any
	if err := json.Unmarshal(response, &value); err != nil {
		t.Fatalf("%s %s: %v: %s", e.Method, e.Path, err, response)
	}
	return without(value, e.Operation == "get-stats" || e.Status >= http.StatusBadRequest)
}

// volatile are members whose numbers and texts depend on when they are asked for.
var volatile = map[string]bool{
	"time_left_ms": true, "took_ms": true, "next": true, "detail": true, "error": true, "deferrals": true,
}

// without replaces what differs, or with formOnly every text and number.
func without(value any, formOnly bool) any {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			value[name] = without(inner, formOnly || volatile[name])
		}
		return value
	case []any:
		for i, inner := range value {
			value[i] = without(inner, formOnly)
		}
		if formOnly && len(value) > 1 {
			return value[:1]
		}
		return value
	case string:
		if formOnly {
			return "TEXT"
		}
		return madeID.ReplaceAllString(instant.ReplaceAllString(value, "TIME"), "ID")
	case float64:
		if formOnly {
			return 0.0
		}
	}
	return value
}

// write keeps the examples with their responses.
func write(t *testing.T, examples []example) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(examples); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, examplesFile), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// everyOperationHasAnExample compares them with the document of the running process.
func everyOperationHasAnExample(t *testing.T, api string, examples []example) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		}
	}
	_, text := request(t.Context(), t, http.MethodGet, api+"/openapi.json", "", nil)
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, e := range examples {
		shown[e.Operation] = true
	}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			if !shown[operation.OperationID] {
				t.Errorf("%s has no example of %s (%s %s): add one, and run make docs", examplesFile,
					operation.OperationID, strings.ToUpper(method), path)
			}
		}
	}
}

// serve starts a dispatcher with an environment and gives the URL of its API once it is ready.
func serve(t *testing.T, environ ...string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "policy.yaml"), []byte(examplesPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	api, ops := freeAddress(t), freeAddress(t)
	process := exec.Command(filepath.Join(programs, "dispatcher"), "serve", "--policy", "policy.yaml", "--listen", api, //nolint:noctx // ends below
		"--ops-listen", ops)
	process.Dir = folder
	process.Env = append(cleanEnvironment(), environ...)
	var log bytes.Buffer
	process.Stderr = &log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- process.Wait() }()
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM) // fails when it is gone
		if err := <-exited; err != nil {
			t.Errorf("the dispatcher: %v\n%s", err, log.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if ready(ctx, "http://"+ops+"/readyz") {
			return "http://" + api
		}
		select {
		case err := <-exited:
			exited <- nil
			t.Fatalf("the dispatcher ended: %v\n%s", err, log.String())
		case <-ctx.Done():
			t.Fatalf("the dispatcher is not ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ready(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := apitest.Once.Do(r)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // only the status counts
	return response.StatusCode == http.StatusOK
}
