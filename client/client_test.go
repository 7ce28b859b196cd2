package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/client"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// server responds as a test tells it, and remembers what was sent.
type server struct {
	mu      sync.Mutex
	bodies  []string
	respond func(n int, w http.ResponseWriter)
}

// RoundTrip implements [http.RoundTripper], so that clients in a bubble reach it without a network.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, string(body))
	n := len(s.bodies)
	s.mu.Unlock()
	w := httptest.NewRecorder()
	s.respond(n, w)
	if w.Code == http.StatusTeapot {
		return nil, errors.New("connection refused")
	}
	return w.Result(), nil
}

func accept(_ int, w http.ResponseWriter) {
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"id":"n1","status":"queued"}`)
}

func TestTriesAgainWithTheSameIDAndObeysRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{respond: func(n int, w http.ResponseWriter) {
			switch n {
			case 1:
				w.WriteHeader(http.StatusTeapot)
			case 2:
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(http.StatusServiceUnavailable)
			case 3:
				w.WriteHeader(http.StatusInternalServerError)
			default:
				accept(n, w)
			}
		}}
		start := time.Now()
		view, err := newClientOver(t, s, 0).Enqueue(t.Context(), client.Notification{UserID: "ada"})
		if err != nil || view.ID != "n1" || view.Status != "queued" {
			t.Fatalf("%+v, %v", view, err)
		}
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("took %s, want the 3 s of Retry-After and short back-offs", took)
		}
		if len(s.bodies) != 4 || len(slices.Compact(s.bodies)) != 1 || !strings.Contains(s.bodies[0], `"id":"`) {
			t.Errorf("sent %q, want the same four times, with an id", s.bodies)
		}
	})
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	for status, tries := range map[int]int{
		http.StatusUnprocessableEntity: 1, http.StatusUnauthorized: 1, http.StatusNotFound: 1,
		http.StatusNotImplemented: 1, http.StatusConflict: 1, http.StatusFound: 1, http.StatusServiceUnavailable: 5,
		http.StatusTooManyRequests:     5,
		http.StatusInternalServerError: 5,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &server{respond: func(_ int, w http.ResponseWriter) {
					w.WriteHeader(status)
					_, _ = io.WriteString(w,
						`{"title":"No","detail":"it is not","errors":[{"location":"body.category","message":"is unknown"}]}`)
				}}
				_, err := newClientOver(t, s, 0).Enqueue(t.Context(), client.Notification{UserID: "ada"})
				refused, ok := errors.AsType[*client.Error](err)
				if !ok || refused.Status != status || refused.Detail != "it is not" || len(refused.Fields) != 1 ||
					refused.Fields[0].Field != "category" {
					t.Errorf("%v", err)
				}
				if len(s.bodies) != tries {
					t.Errorf("tried %d times, want %d", len(s.bodies), tries)
				}
			})
		})
	}
}

func TestTheCallersEndIsTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{respond: func(_ int, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newClientOver(t, s, 0).Enqueue(ctx, client.Notification{UserID: "ada"})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's end", err)
		}
		if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != http.StatusServiceUnavailable {
			t.Errorf("%v, want the server's last word too", err)
		}
	})
}

func TestManyGoInAsFewRequestsAsMayBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n, size, requests int
		maxWait           int // one of so many has a max_wait
	}{
		"Items": {n: 20_001, requests: 3}, "Bytes": {n: 70, size: 250_000, requests: 2}, "None": {},
		"MaxWait": {n: 1500, maxWait: 1, requests: 2}, "SomeMaxWait": {n: 6_000, maxWait: 5, requests: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{}
			s.respond = func(n int, w http.ResponseWriter) {
				var items []json.RawMessage
				if err := json.Unmarshal([]byte(s.bodies[n-1]), &items); err != nil {
					t.Error(err)
				}
				if strings.Count(s.bodies[n-1], `"max_wait"`) > 1000 {
					w.WriteHeader(http.StatusRequestEntityTooLarge)
					return
				}
				results := make([]client.Result, len(items))
				for i := range results {
					results[i] = client.Result{Index: i, ID: fmt.Sprint(n, "-", i)}
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
			}
			many := make([]client.Notification, c.n)
			for i := range many {
				many[i] = client.Notification{UserID: "ada", Body: strings.Repeat("b", c.size)}
				if c.maxWait > 0 && i%c.maxWait == 0 {
					many[i].MaxWait = "30s"
				}
			}
			results, err := newClientOver(t, s, 0).EnqueueMany(t.Context(), many)
			if err != nil || len(results) != c.n || len(s.bodies) != c.requests {
				t.Errorf("%d results in %d requests, %v; want %d in %d", len(results), len(s.bodies), err, c.n,
					c.requests)
			}
			for _, body := range s.bodies {
				if len(body) > 16<<20 {
					t.Errorf("a request of %d bytes", len(body))
				}
			}
		})
	}
}

// A notification that fits into no request is refused alone: those before and behind it go.
func TestWhatFitsIntoNoRequestIsRefusedAlone(t *testing.T) {
	t.Parallel()
	s := &server{}
	s.respond = func(n int, w http.ResponseWriter) {
		var items []json.RawMessage
		switch err := json.Unmarshal([]byte(s.bodies[n-1]), &items); {
		case err != nil:
			t.Error(err)
		case len(s.bodies[n-1]) >= 16<<20: // servers before this one refuse exactly so many too
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"results": make([]client.Result, len(items))})
	}
	fits := client.Notification{ID: "fits", UserID: "ada"}
	alone, err := json.Marshal([]client.Notification{fits})
	if err != nil {
		t.Fatal(err)
	}
	fits.Body = strings.Repeat("b", 16<<20-1-len(`,"body":""`)-len(alone))
	over := fits
	over.Body += "b"
	many := []client.Notification{{UserID: "ada"}, over, {UserID: "ada"}, fits, over}
	results, err := newClientOver(t, s, 0).EnqueueMany(t.Context(), many)
	if err != nil || len(results) != len(many) || len(s.bodies) != 2 {
		t.Fatalf("%d results of %d requests, %v", len(results), len(s.bodies), err)
	}
	for i, r := range results {
		if refused := r.Err() != nil; refused != (i == 1 || i == 4) || r.Index != i {
			t.Errorf("result %d: %+v", i, r)
		}
	}
}

// forgetful is a server that knows what it has accepted, and whose responses are lost from the given request on.
type forgetful struct {
	accepted map[string]int // how often, by id
	requests int
	lostFrom int // 0 for never
}

// RoundTrip implements [http.RoundTripper].
func (f *forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	var items []client.Notification
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	many := strings.HasSuffix(r.URL.Path, "/bulk")
	if !many {
		body = slices.Concat([]byte("["), body, []byte("]"))
	}
	if err := json.Unmarshal(body, &items); err != nil {
		return nil, err
	}
	f.requests++
	results := make([]client.Result, len(items))
	for i, n := range items {
		f.accepted[n.ID]++
		results[i] = client.Result{Index: i, ID: n.ID}
	}
	if f.lostFrom > 0 && f.requests >= f.lostFrom {
		return nil, errors.New("connection reset by peer")
	}
	w := httptest.NewRecorder()
	if many {
		err = json.NewEncoder(w).Encode(map[string]any{"results": results})
	} else {
		err = json.NewEncoder(w).Encode(client.View{Notification: items[0]})
	}
	return w.Result(), err
}

// At every try, a server may accept and its response be lost. The caller repeats what it has no result for, as the
// documentation says, and there are as many notifications as it wanted.
func TestCallingAgainAfterALostResponseMakesNoDuplicates(t *testing.T) {
	t.Parallel()
	t.Run("EnqueueMany", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			const n = 25_000 // three requests
			f := &forgetful{accepted: map[string]int{}, lostFrom: 2}
			c := newClientOver(t, f, 0)
			notifications := make([]client.Notification, n)
			for i := range notifications {
				notifications[i] = client.Notification{UserID: "ada", Title: strconv.Itoa(i)}
			}
			notifications[0].ID, notifications[1].ID = "mine", "mine too"
			results, err := c.EnqueueMany(t.Context(), notifications)
			if err == nil || len(results) != 10_000 {
				t.Fatalf("%d results, %v", len(results), err)
			}
			f.lostFrom = 0
			rest, err := c.EnqueueMany(t.Context(), notifications[len(results):])
			if err != nil || len(results)+len(rest) != n {
				t.Fatalf("%d results, then %d, %v", len(results), len(rest), err)
			}
			if len(f.accepted) != n {
				t.Errorf("%d notifications were accepted, want %d", len(f.accepted), n)
			}
			for i, r := range append(results, rest...) {
				if r.ID == "" || r.ID != notifications[i].ID {
					t.Fatalf("result %d has id %q, its notification %q", i, r.ID, notifications[i].ID)
				}
			}
			if notifications[0].ID != "mine" || notifications[1].ID != "mine too" {
				t.Error("an id of the caller's own was changed")
			}
		})
	})
	t.Run("Enqueue", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := &forgetful{accepted: map[string]int{}, lostFrom: 1}
			c, n := newClientOver(t, f, 0), client.Notification{UserID: "ada"}
			if err := n.Identify(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Enqueue(t.Context(), n); err == nil {
				t.Fatal("the responses were not lost")
			}
			f.lostFrom = 0
			view, err := c.Enqueue(t.Context(), n)
			if err != nil || view.ID != n.ID || len(f.accepted) != 1 {
				t.Errorf("%+v, %v; accepted %v", view, err, f.accepted)
			}
		})
	})
}

// newClientOver makes a client with so many attempts, 0 for the default.
func newClientOver(t *testing.T, over http.RoundTripper, attempts int) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{HTTPClient: &http.Client{Transport: over}, Attempts: attempts})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNotificationsWithANameKeepIt(t *testing.T) {
	t.Parallel()
	for _, n := range []client.Notification{{ID: "order-7"}, {IdempotencyKey: "order-7"}} {
		was := n
		if err := n.Identify(); err != nil || n.ID != was.ID || n.IdempotencyKey != was.IdempotencyKey {
			t.Errorf("%+v became %+v, %v", was, n, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]client.Config{
		"server without a scheme": {Server: "pacer:8080"},
		"scheme that is not HTTP": {Server: "ftp://pacer"},
		"scheme without a server": {Server: "http://"},
		"negative attempts":       {Attempts: -1},
		"negative time-out":       {Timeout: -1},
	} {
		if _, err := client.New(bad); err == nil {
			t.Errorf("%s: %+v is taken", name, bad)
		}
	}
}

func TestEnqueueTxCommitsAndRollsBackWithTheCaller(t *testing.T) {
	t.Parallel()
	conn := postgrestest.Connect(t, postgrestest.URL(t))
	for _, commit := range []bool{false, true} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id, err := client.EnqueueTx(t.Context(), tx,
			client.Notification{UserID: "ada", SendAt: time.Now().Add(time.Hour)})
		if err != nil || id == "" {
			t.Fatalf("%q, %v", id, err)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		var there bool
		if err := conn.QueryRow(t.Context(),
			"SELECT EXISTS (SELECT FROM pacer.outbox WHERE key = $1 AND unchecked)",
			id).Scan(&there); err != nil || there != commit {
			t.Errorf("committed: %t, there: %t, %v", commit, there, err)
		}
	}
	_, err := client.EnqueueTx(t.Context(), conn, client.Notification{
		ID: "named", UserID: "ada", Channel: "email:billing", Body: strings.Repeat("x", 5000),
		Email: []byte(`{"subject": "y"}`),
	})
	var override string
	if readErr := conn.QueryRow(t.Context(), "SELECT override FROM pacer.notifications WHERE id = 'named'").
		Scan(&override); err != nil || readErr != nil || override != `{"subject": "y"}` {
		t.Errorf("for a sender with a name: %v, %v, its own format %q", err, readErr, override)
	}
	_, err = client.EnqueueTx(t.Context(), conn, client.Notification{UserID: "ada", Priority: "urgent"})
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != http.StatusUnprocessableEntity ||
		!strings.HasPrefix(refused.Detail, "priority") {
		t.Errorf("%v, want a 422 about the priority", err)
	}
	_, err = client.EnqueueTx(t.Context(), conn, client.Notification{UserID: "ada", IdempotencyKey: "key"})
	if refused, ok := errors.AsType[*client.Error](err); !ok || !strings.Contains(refused.Detail, "idempotency_key") {
		t.Errorf("%v, want a 422 about the key", err)
	}
}

// The client knows every field of the API's document, and no other.
func TestFieldsAreTheDocuments(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for schema, kind := range map[string]reflect.Type{
		"Input": reflect.TypeFor[client.Notification](), "View": reflect.TypeFor[client.View](),
		"Window": reflect.TypeFor[client.Window](), "Rule": reflect.TypeFor[client.Rule](),
		"Event": reflect.TypeFor[client.Event](), "Delivery": reflect.TypeFor[client.Delivery](),
	} {
		known := map[string]bool{}
		for _, field := range reflect.VisibleFields(kind) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				known[name] = true
			}
		}
		if schema == "View" {
			for _, never := range []string{"idempotency_key", "template", "max_wait"} {
				delete(known, never)
			}
		}
		documented := slices.Sorted(maps.Keys(document.Components.Schemas[schema].Properties))
		if names := slices.Sorted(maps.Keys(known)); len(names) == 0 || !slices.Equal(documented, names) {
			t.Errorf("%s: the document has %v, the client %v", schema, documented, names)
		}
	}
}

func FuzzErrors(f *testing.F) {
	for _, seed := range []string{
		`{"title":"x"}`, `[]`, "", "\xff", `{"errors":[{"location":5}]}`,
		`{"errors":null,"detail":{}}`,
	} {
		f.Add(422, seed)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 400 || status > 599 {
			return // not an error
		}
		s := &server{respond: func(_ int, w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}}
		_, err := newClientOver(t, s, 1).Get(t.Context(), "n1")
		if refused, ok := errors.AsType[*client.Error](err); status != http.StatusTeapot &&
			(!ok || refused.Status != status) {
			t.Errorf("%d %q: %v", status, body, err)
		}
	})
}

// The longest refusals that the API has for each of as many items as a batch may have: some 1,900 bytes, as when every
// field of an item holds something that must be quoted.
func TestTheLongestRefusalsOfABatchAreRead(t *testing.T) {
	t.Parallel()
	const items, size = 10_000, 1900
	long := strings.Repeat("\x01", size/6) // each takes six bytes
	s := &server{respond: func(_ int, w http.ResponseWriter) {
		results := make([]client.Result, items)
		for i := range results {
			results[i] = client.Result{Index: i, Error: long}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"rejected": items, "results": results})
	}}
	notifications := make([]client.Notification, items)
	for i := range notifications {
		notifications[i].UserID = "ada"
	}
	results, err := newClientOver(t, s, 0).EnqueueMany(t.Context(), notifications)
	if err != nil || len(results) != items || len(s.bodies) != 1 {
		t.Fatalf("%d results of %d requests, %v", len(results), len(s.bodies), err)
	}
	for i, r := range results {
		if r.Index != i || r.Error != long {
			t.Fatalf("result %d is %d: %.40q", i, r.Index, r.Error)
		}
	}
}

// A response without an end is not read for ever, and the error says what is wrong with it.
func TestAResponseThatIsTooLongIsNotRead(t *testing.T) {
	t.Parallel()
	s := &server{respond: func(_ int, w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"id":"`+strings.Repeat("n", 41<<20)+`"}`)
	}}
	_, err := newClientOver(t, s, 0).Get(t.Context(), "n1")
	if err == nil || !strings.HasSuffix(err.Error(), "the response is longer than 40960000 bytes") {
		t.Errorf("%.200v", err)
	}
}
