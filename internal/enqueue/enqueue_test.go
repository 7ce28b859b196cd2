package enqueue_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/enqueue"
)

// bulkAPI takes batches, refuses every line that holds "REFUSE", and fails the first calls with a status if told.
type bulkAPI struct {
	lines    []string
	calls    int
	failures []int
}

func (a *bulkAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.calls++
	if len(a.failures) > 0 {
		status := a.failures[0]
		a.failures = a.failures[1:]
		w.WriteHeader(status)
		return
	}
	var response enqueue.Response
	scanner := bufio.NewScanner(r.Body)
	scanner.Buffer(nil, 4<<20)
	var refused []map[string]any
	for index := 0; scanner.Scan(); index++ {
		line := scanner.Text()
		a.lines = append(a.lines, line)
		if strings.Contains(line, "REFUSE") {
			response.Rejected++
			refused = append(refused, map[string]any{"index": index, "error": "is bad"})
		} else {
			response.Accepted++
		}
	}
	body, err := json.Marshal(map[string]any{
		"accepted": response.Accepted, "rejected": response.Rejected, "results": refused,
	})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(body) // the test reads it
}

// run enqueues an input in a bubble's time: a batch waits a moment for further lines, which passes only once none come,
// however slow the machine is.
func (a *bulkAPI) run(t *testing.T, key, input string) (summary enqueue.Summary, refused []string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		summary, err = enqueue.Run(t.Context(), enqueue.Config{
			API:            &enqueue.API{URL: "http://pacer.invalid", Client: enqueue.InProcess(a), Patience: time.Second},
			IdempotencyKey: key,
			Refused:        func(where, why string) { refused = append(refused, where+": "+why) },
		}, strings.NewReader(input))
	})
	return summary, refused, err
}

func TestRefusedLinesAreTheirOwnNumbers(t *testing.T) {
	t.Parallel()
	api := &bulkAPI{}
	summary, refused, err := api.run(t, "",
		"{\"id\":\"1\"}\n\n{\"id\":\"2\",\"x\":\"REFUSE\"}\r\n  \nREFUSE\n{\"id\":\"3\"}")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(enqueue.Summary{Accepted: 2, Refused: 2}, summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"line 3: is bad", "line 5: is bad"}, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestLinesWithoutIDGetOneSoThatARepeatAddsNothing(t *testing.T) {
	t.Parallel()
	api := &bulkAPI{failures: []int{http.StatusServiceUnavailable, http.StatusTooManyRequests}}
	lines := "{}\n{ \"user_id\": \"ada\" }\n{\"id\":\"own\"}\n{\"idempotency_key\":\"own\"}"
	if _, _, err := api.run(t, "", lines); err != nil {
		t.Fatal(err)
	}
	if api.calls != 3 || len(api.lines) != 4 {
		t.Fatalf("%d calls, lines %q", api.calls, api.lines)
	}
	for i, line := range api.lines {
		var got map[string]string
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("line %d is broken: %q", i, line)
		}
		if got["id"] == "" && got["idempotency_key"] != "own" {
			t.Errorf("line %d has no id: %q", i, line)
		}
	}
}

func TestIdempotencyKeyNumbersTheLines(t *testing.T) {
	t.Parallel()
	api := &bulkAPI{}
	if _, _, err := api.run(t, "job", "{}\n\n{\"user_id\":\"ada\"}\n{\"id\":\"own\"}"); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"idempotency_key":"job:1"}`, `{"idempotency_key":"job:3","user_id":"ada"}`, `{"id":"own"}`}
	if diff := cmp.Diff(want, api.lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// null and an empty text are no id and no key, as for the API: such a line gets one in its place, and nothing else
// changes.
func TestWhatIsNoIDIsReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, keyed, named string }{
		"no id": {
			line:  `{"user_id":"ada","id":null,"data":{"id":null}}`,
			keyed: `{"idempotency_key":"job:1","user_id":"ada","id":null,"data":{"id":null}}`,
			named: `{"user_id":"ada","id":"MADE","data":{"id":null}}`,
		},
		"an empty id": {
			line: `{ "id" : "" , "n": 1e400 }`, keyed: `{"idempotency_key":"job:1","id" : "" , "n": 1e400 }`,
			named: `{ "id" : "MADE" , "n": 1e400 }`,
		},
		"no key": {
			line: `{"idempotency_key": null}`, keyed: `{"idempotency_key": "job:1"}`,
			named: `{"id":"MADE","idempotency_key": null}`,
		},
		"an empty key": {
			line: `{"data":{},"idempotency_key":""}`, keyed: `{"data":{},"idempotency_key":"job:1"}`,
			named: `{"id":"MADE","data":{},"idempotency_key":""}`,
		},
		"neither": {
			line: `{"idempotency_key":null,"id":null}`, keyed: `{"idempotency_key":"job:1","id":null}`,
			named: `{"idempotency_key":null,"id":"MADE"}`,
		},
		"an id and no key": {
			line: `{"id":"own","idempotency_key":null}`, keyed: `{"id":"own","idempotency_key":null}`,
			named: `{"id":"own","idempotency_key":null}`,
		},
		"a key and no id": {
			line: `{"id":"","idempotency_key":"own"}`, keyed: `{"id":"","idempotency_key":"own"}`,
			named: `{"id":"","idempotency_key":"own"}`,
		},
		// The API refuses these, and says why.
		"an id of a wrong type": {line: `{"id":0}`, keyed: `{"id":0}`, named: `{"id":0}`},
		"no id, in capitals": {
			line: `{"ID":null}`, keyed: `{"idempotency_key":"job:1","ID":null}`, named: `{"id":"MADE","ID":null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for key, want := range map[string]string{"job": c.keyed, "": c.named} {
				api := &bulkAPI{}
				if _, refused, err := api.run(t, key, c.line); err != nil || refused != nil || len(api.lines) != 1 {
					t.Fatalf("refused %q, %v, lines %q", refused, err, api.lines)
				}
				got := madeID.ReplaceAllString(api.lines[0], "MADE")
				if got != want {
					t.Errorf("with the key %q\n got %s\nwant %s", key, got, want)
				}
			}
		})
	}
}

// madeID matches the ids that are made here.
var madeID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

func TestManyLinesGoInBatches(t *testing.T) {
	t.Parallel()
	api := &bulkAPI{}
	summary, _, err := api.run(t, "", strings.Repeat("{\"user_id\":\"ada\"}\n", 2500))
	if err != nil || summary.Accepted != 2500 || api.calls != 3 {
		t.Errorf("accepted %d in %d calls, %v", summary.Accepted, api.calls, err)
	}
}

// A file that was pretty-printed has one fault, not one per line; what is on lines of its own still goes in.
func TestNotificationsOverSeveralLinesAreToldOnce(t *testing.T) {
	t.Parallel()
	pretty := "{\n  \"user_id\": \"ada\",\n  \"data\": {\"a\": [1,\n2]}\n}\n"
	api := &bulkAPI{}
	summary, refused, err := api.run(t, "", "{}\n"+pretty+"\n"+pretty+"REFUSE\n{}\n"+pretty+strings.TrimSpace(pretty))
	want := []string{
		"lines 2 to 6: the notification is spread over several lines: put each on one line of its own, as jq -c . FILE does",
		"line 13: is bad",
	}
	if diff := cmp.Diff(want, refused); diff != "" || err != nil {
		t.Errorf("refused (-want +got), %v:\n%s", err, diff)
	}
	if diff := cmp.Diff(enqueue.Summary{Accepted: 2, Refused: 5}, summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// A line that was cut off is one bad line: those behind it go in.
func TestALineThatWasCutOff(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]string{
		"in a text": `{"id": "REFUSE`, "behind a comma": `{"id": "REFUSE",`, "behind a colon": `{"REFUSE":`,
		"twice": "{\"id\": \"REFUSE\n{\"REFUSE\": [", "with more behind it": "{\n} {\"REFUSE\": 1}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &bulkAPI{}
			summary, _, err := api.run(t, "", "{\"id\":\"1\"}\n"+torn+"\n{\"id\":\"2\"}\n{\"id\":\"3\"}\n")
			if err != nil || len(api.lines) != 4+strings.Count(torn, "\n") ||
				api.lines[len(api.lines)-1] != `{"id":"3"}` {
				t.Errorf("%+v, %v: %q", summary, err, api.lines)
			}
		})
	}
}

func TestAnArrayIsRefused(t *testing.T) {
	t.Parallel()
	api := &bulkAPI{}
	if _, refused, err := api.run(t, "", "\n[\n{},\n{}\n]"); !errors.As(err, new(enqueue.ArrayError)) || refused != nil || api.calls != 0 {
		t.Errorf("refused %q, %v, %d calls", refused, err, api.calls)
	}
}

// Where nothing listens nothing is waited for; once the API has responded, it may restart.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close() // so that nothing listens there
	api := &enqueue.API{URL: "http://" + listener.Addr().String(), Client: &http.Client{}, Patience: time.Hour}
	_, err = enqueue.Run(t.Context(), enqueue.Config{API: api}, strings.NewReader("{}"))
	if err == nil || !strings.HasPrefix(err.Error(), "nothing is listening at "+api.URL) ||
		!strings.Contains(err.Error(), "start a dispatcher") {
		t.Errorf("said %v", err)
	}
}

func TestTooLongALineIsRefusedAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	api := &bulkAPI{}
	summary, refused, err := api.run(t, "", "{}\n{\"body\":\""+strings.Repeat("b", 3<<20)+"\"}\n{}\n")
	if err != nil || summary.Accepted != 2 || len(refused) != 1 || !strings.HasPrefix(refused[0], "line 2: ") {
		t.Errorf("accepted %d, refused %.60q, %v", summary.Accepted, refused, err)
	}
}

func TestWhatEndsARun(t *testing.T) {
	t.Parallel()
	var unreachable *enqueue.UnreachableError
	api := &bulkAPI{failures: []int{503, 503, 503, 503, 503, 503, 503, 503, 503, 503, 503, 503}}
	if _, _, err := api.run(t, "", "{}"); !errors.As(err, &unreachable) {
		t.Errorf("an API that stays away: %v", err)
	}
	api = &bulkAPI{failures: []int{http.StatusUnauthorized}}
	if _, _, err := api.run(t, "", "{}"); err == nil || errors.As(err, &unreachable) || api.calls != 1 {
		t.Errorf("an API that wants a token: %v after %d calls", err, api.calls)
	}
	broken := io.MultiReader(bytes.NewReader([]byte("{}\n")), brokenReader{})
	_, err := enqueue.Run(t.Context(), enqueue.Config{
		API: &enqueue.API{Client: enqueue.InProcess(&bulkAPI{})}, Refused: func(string, string) {},
	}, broken)
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("an input that can't be read: %v", err)
	}
}

// What comes slowly, as from tail -f, does not wait for more; and who interrupts the program does not wait for a line.
func TestASlowInputIsSentAndCanBeInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		input, lines := io.Pipe()
		t.Cleanup(func() { _ = lines.Close() })
		sent := make(chan string, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent <- string(body)
			_, _ = io.WriteString(w, `{"accepted":1,"results":[]}`) // the test reads it
		})
		ended := make(chan error, 1)
		go func() {
			summary, err := enqueue.Run(ctx, enqueue.Config{
				API: &enqueue.API{URL: "http://pacer.invalid", Client: enqueue.InProcess(handler)},
			}, input)
			if summary.Accepted != 2 {
				t.Errorf("%+v, want 2 accepted", summary)
			}
			ended <- err
		}()
		for _, id := range []string{"a", "b"} {
			_, _ = io.WriteString(lines, `{"id":"`+id+"\"}\n") // a pipe of this process
			select {
			case body := <-sent:
				if !strings.Contains(body, id) {
					t.Errorf("sent %q, want %s in it", body, id)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s waits for another line", id)
			}
		}
		interrupt()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ends with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it can't be interrupted")
		}
	})
}

// An API that limits its callers says when it takes more. A file is longer than what is left, and waits for that; a
// limit of a day ends the run, in its own words.
func TestALimitOfTheAPIIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after, want string
		took        time.Duration
	}{
		"of a minute": {after: "55", took: 55 * time.Second},
		"of a day": {
			after: "86000", want: "pacer at http://pacer.invalid accepts nothing more for now: too many requests: limit 1/1d; it will again in 23h53m20s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if c.want != "" || time.Since(began) < c.took {
						w.Header().Set("Retry-After", c.after)
						w.WriteHeader(http.StatusTooManyRequests)
						_, _ = io.WriteString(w, `{"title":"Too Many Requests","detail":"too many requests: limit 1/1d"}`)
						return
					}
					_, _ = io.WriteString(w, `{"accepted":1,"results":[]}`)
				})
				summary, err := enqueue.Run(t.Context(), enqueue.Config{
					API: &enqueue.API{URL: "http://pacer.invalid", Client: enqueue.InProcess(handler)},
				}, strings.NewReader("{}"))
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
				if c.want == "" && (err != nil || summary.Accepted != 1) || c.want != "" && (err == nil || err.Error() != c.want) {
					t.Errorf("%+v, %v", summary, err)
				}
			})
		})
	}
}

type brokenReader struct{}

// Read implements io.Reader.
func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }
