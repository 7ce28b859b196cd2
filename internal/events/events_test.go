package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

// world is a store of events, and where they happen.
type world struct {
	events.Store
	records record.Store
}

func (w *world) happen(t *testing.T, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		text, err := json.Marshal(events.New(events.EndpointDisabled, "ep_1", reason))
		if err := errors.Join(err, w.records.Append(t.Context(), events.Log, text)); err != nil {
			t.Error(err)
		}
	}
}

// onEach runs a test on each kind of store.
func onEach(t *testing.T, run func(t *testing.T, w *world)) {
	t.Helper()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) { run(t, &world{events.NewStore(s), s}) })
}

// One process at a time sends to a receiver, until it has not said so for the lease. What is noted never goes back.
func TestOneSendsAtATime(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.happen(t, "before")
		hold := func(holder string, lease time.Duration) (events.Progress, bool) {
			t.Helper()
			p, held, err := w.Hold(t.Context(), "r", holder, lease)
			if err != nil || held && time.Since(p.Now).Abs() > time.Minute {
				t.Fatalf("hold: %+v, %v", p, err)
			}
			return p, held
		}
		if p, held := hold("a", time.Hour); !held || p.Done != 1 {
			t.Errorf("a new receiver begins with %+v, %t: want it to get what happens from now on", p, held)
		}
		w.happen(t, "1", "2")
		if _, held := hold("b", time.Hour); held {
			t.Error("two send at a time")
		}
		failed, err := w.Failed(t.Context(), "r", 2, "500", time.Hour)
		if err != nil || failed.FailingSince.IsZero() {
			t.Errorf("failing: %+v, %v", failed, err)
		}
		again, err := w.Failed(t.Context(), "r", 2, "500", time.Hour)
		if err != nil || !again.FailingSince.Equal(failed.FailingSince) || again.Disabled || again.Failing != 2 {
			t.Errorf("failing again: %+v, %v", again, err)
		}
		for _, done := range []int64{2, 1} {
			if err := w.Done(t.Context(), "r", done); err != nil {
				t.Fatal(err)
			}
		}
		if p, held := hold("a", 0); !held || p.Done != 2 || !p.FailingSince.IsZero() {
			t.Errorf("it goes on with %+v, %t", p, held)
		}
		if p, held := hold("b", time.Hour); !held || p.Done != 2 {
			t.Errorf("the next one begins with %+v, %t", p, held)
		}
		if next, err := w.Failed(t.Context(), "r", 3, "", 0); err != nil || !next.FailingSince.After(failed.FailingSince) {
			t.Errorf("the next event fails since %s, the one before since %s, %v", next.FailingSince,
				failed.FailingSince, err)
		}
	})
}

// receiver is a receiver of events that verifies them as any receiver of Standard Webhooks.
type receiver struct {
	server *httptest.Server
	mu     sync.Mutex
	// got are the reasons of the events that it took, refused is the id of the call that it has just refused.
	got     []string
	refused string
	status  int
	// fails is how many responses to come are 503 instead.
	fails int
}

func newReceiver(t *testing.T, secret string) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusOK}
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		if err := verifier.Verify(body, request.Header); err != nil {
			t.Errorf("an event that does not verify: %v", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		var told struct{ Events []events.Event }
		id := request.Header.Get("Webhook-Id")
		if err := json.Unmarshal(body, &told); err != nil || len(told.Events) == 0 || len(told.Events) > 100 ||
			r.refused != "" && id != r.refused || !strings.HasPrefix(id, told.Events[0].ID+".") {
			t.Errorf("the webhook-id is %s, before it was %q, of %s, %v", id, r.refused, body, err)
		}
		status := r.status
		if r.fails > 0 {
			r.fails, status = r.fails-1, http.StatusServiceUnavailable
		}
		if r.refused = ""; status != http.StatusOK {
			r.refused = id
		}
		for i := 0; r.refused == "" && i < len(told.Events); i++ {
			r.got = append(r.got, told.Events[i].Reason)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) responds(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// await waits until so much has come. The first events may come again before: a sender that is stopped may not have
// noted yet that it was received.
func (r *receiver) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		r.mu.Lock()
		got := strings.TrimSpace(strings.NewReplacer("- ", "", "begin ", "").Replace(strings.Join(r.got, " ") + " "))
		r.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(deadline) || len(got) > len(want) {
			t.Fatalf("received %q, want %q", got, want)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// has reports whether an event has come.
func (r *receiver) has(event string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.got, event)
}

// process is a sender that runs until it is stopped.
type process struct {
	*events.Sender
	metrics *prometheus.Registry
	stop    func()
}

func (w *world) start(t *testing.T, secretText string, giveUp time.Duration, urls ...string) process {
	t.Helper()
	keys, err := signing.ParseAll([]secret.Secret{secret.New(secretText)})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	s, err := events.NewSender(w.Store, events.SenderConfig{
		Receivers: urls, Keys: signing.NewRing(keys), Metrics: registry,
		LookEvery: 10 * time.Millisecond, ShortestWait: 30 * time.Millisecond, GiveUpAfter: giveUp,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	p := process{s, registry, sync.OnceFunc(func() { cancel(); <-done })}
	t.Cleanup(p.stop)
	return p
}

// begins waits until a process has begun to send to each of its receivers: they get what happens from then on.
func (w *world) begins(t *testing.T, receivers ...*receiver) {
	t.Helper()
	for _, r := range receivers {
		for r.last() == "" {
			w.happen(t, "-")
			<-time.After(20 * time.Millisecond)
		}
	}
	w.happen(t, "begin")
	for _, r := range receivers {
		for r.last() != "begin" {
			<-time.After(5 * time.Millisecond)
		}
		r.mu.Lock()
		r.got = nil
		r.mu.Unlock()
	}
}

// last is what came last; "" before anything has.
func (r *receiver) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) == 0 {
		return ""
	}
	return r.got[len(r.got)-1]
}

// Each receiver gets each event once, in order, signed, though two processes would send it. One that fails gets the
// same event until it takes it, and then those after it; nobody waits for it.
func TestReceiversGetAllInOrder(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		key := signing.Generate(signing.HMAC).Reveal()
		good, bad := newReceiver(t, key), newReceiver(t, key)
		first := w.start(t, key, time.Hour, good.server.URL, bad.server.URL)
		second := w.start(t, key, time.Hour, good.server.URL, bad.server.URL)
		w.begins(t, good, bad)
		bad.mu.Lock()
		bad.fails = 2
		bad.mu.Unlock()
		w.happen(t, "1", "2")
		good.await(t, "1 2")
		bad.await(t, "1 2")
		failed := 0.0
		for _, p := range []process{first, second} {
			p.stop()
			failed += counted(t, p, "failed")
		}
		if failed != 2 && failed != 4 { // each failed twice, alone or together
			t.Errorf("%f events are counted as failed, want 2 or 4", failed)
		}
	})
}

func counted(t *testing.T, p process, outcome string) float64 {
	t.Helper()
	families, err := p.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if f.GetName() == "pacer_events_total" && label.GetName() == "outcome" && label.GetValue() == outcome {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// A receiver that takes nothing for a day is disabled. It gets all once another process starts.
func TestReceiversAreDisabled(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		key := signing.Generate(signing.HMAC).Reveal()
		r := newReceiver(t, key)
		p := w.start(t, key, 20*time.Millisecond, r.server.URL)
		w.begins(t, r)
		r.responds(http.StatusInternalServerError)
		w.happen(t, "1", "2")
		deadline := time.Now().Add(time.Minute)
		for all := p.Troubled(); len(all) != 1 || !all[0].Disabled; all = p.Troubled() {
			if <-time.After(5 * time.Millisecond); time.Now().After(deadline) {
				t.Fatalf("in trouble are %+v, want the receiver to be disabled", all)
			}
		}
		p.stop()
		r.responds(http.StatusOK)
		w.start(t, key, time.Hour, r.server.URL)
		r.await(t, "1 2")
	})
}

// dies is the store as a process sees it that dies after the POST of an event, before that is noted.
type dies struct {
	events.Store
	received func() bool // whether the receiver has got the event
	dead     atomic.Bool
}

// Done implements [events.Store].
func (d *dies) Done(ctx context.Context, receiver string, upTo int64) error {
	if !d.received() {
		return d.Store.Done(ctx, receiver, upTo)
	}
	d.dead.Store(true)
	return errors.New("dead")
}

// Hold implements [events.Store]. Its lease is short: the next process need not wait for long.
func (d *dies) Hold(ctx context.Context, receiver, holder string, _ time.Duration) (events.Progress, bool, error) {
	if d.dead.Load() {
		return events.Progress{}, false, errors.New("dead")
	}
	return d.Store.Hold(ctx, receiver, holder, time.Second)
}

// When the process that sends dies between POST and note, the next one sends the event again, and nothing is missed.
func TestAnotherTakesOver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		key := signing.Generate(signing.HMAC).Reveal()
		r := newReceiver(t, key)
		p := w.start(t, key, time.Hour, r.server.URL)
		w.begins(t, r)
		p.stop()
		w.happen(t, "1")
		(&world{Store: &dies{Store: w.Store, received: func() bool { return r.has("1") }}}).start(t, key, time.Hour,
			r.server.URL)
		r.await(t, "1")
		w.happen(t, "2")
		w.start(t, key, time.Hour, r.server.URL)
		r.await(t, "1 1 2")
	})
}
