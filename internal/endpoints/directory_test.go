package endpoints_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
	"github.com/pacer-notify/pacer/test/redistest"
	"github.com/pacer-notify/pacer/test/transcript"
)

const hook = "https://example.com/hook"

// base is when a clock begins: after whatever the store itself dates, such as a registration.
var base = time.Date(2100, 1, 1, 12, 0, 0, 0, time.UTC)

// clock is the time of a process, and of the store that is asked over it. It stands still until a test moves it, so
// a slow machine changes nothing.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return base.Add(c.ahead)
}

func (c *clock) forward(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
}

// shifted is a store whose time is that of a clock, as one process reaches it.
type shifted struct {
	record.Store
	clock *clock
	away  *error
	// between is called between the reading and the writing of a change.
	between func()
	// unread is why no changes can be read.
	unread error
}

// Now implements [record.Documents].
func (s *shifted) Now(context.Context) (time.Time, error) { return s.clock.now(), *s.away }

// Changes implements [record.Documents].
func (s *shifted) Changes(ctx context.Context, kind string, from int64, limit int) ([]record.Record, error) {
	if s.unread != nil {
		return nil, s.unread
	}
	return s.Store.Changes(ctx, kind, from, limit)
}

// Get implements [record.Documents].
func (s *shifted) Get(ctx context.Context, kind, key string) (record.Record, time.Time, error) {
	found, _, err := s.Store.Get(ctx, kind, key)
	return found, s.clock.now(), cmp.Or(*s.away, err)
}

// Write implements [record.Documents].
func (s *shifted) Write(ctx context.Context, w record.Write) (int64, error) {
	if s.between != nil {
		s.between()
	}
	return s.Store.Write(ctx, w)
}

// process is one that delivers to endpoints.
type process struct {
	*endpoints.Directory
	sender  push.Sender
	failure *push.Error
	outcome *push.Error
	calls   int
	away    error
	store   *shifted
	log     strings.Builder
}

// Send implements [push.Sender].
func (p *process) Send(context.Context, push.Message) error {
	p.calls++
	if p.failure == nil {
		return nil
	}
	return p.failure
}

// CheckTarget implements [push.Checker].
func (p *process) CheckTarget(string) error { return nil }

// CheckContent implements [push.Checker].
func (p *process) CheckContent(*notification.Notification) error { return nil }

func newProcess(t *testing.T, s stores, c *clock) *process {
	t.Helper()
	p := &process{}
	p.Directory = endpoints.NewDirectory(endpoints.DirectoryConfig{
		DisableAfter: 5 * 24 * time.Hour, Now: c.now, Log: slog.New(slog.NewTextHandler(&p.log, nil)),
	})
	p.store = &shifted{Store: s.records, clock: c, away: &p.away}
	if err := p.Follow(t.Context(), endpoints.NewStore(p.store)); err != nil {
		t.Fatal(err)
	}
	p.sender = p.Watch(notification.ChannelWebhook, p)
	return p
}

// send makes a delivery that the endpoint responds to with this failure, and keeps what became of it.
func (p *process) send(t *testing.T, failure *push.Error) {
	t.Helper()
	p.failure = failure
	n := &notification.Notification{To: hook}
	p.outcome = push.Classify(p.sender.Send(t.Context(), push.Message{Notification: n}))
}

// round looks for changes and notes what is due.
func (p *process) round(t *testing.T) {
	t.Helper()
	if err := p.Refresh(t.Context()); err != nil && p.away == nil {
		t.Fatal(err)
	}
	p.Note(t.Context())
}

var down = &push.Error{Class: push.Transient, Code: "503", Reply: "down for good"}

// failFor fails every six hours for some time.
func failFor(t *testing.T, c *clock, days int, all ...*process) {
	t.Helper()
	for range 4 * days {
		for _, p := range all {
			p.send(t, down)
			p.round(t)
		}
		c.forward(6 * time.Hour)
	}
}

// For five days two processes deliver to an endpoint that fails: it is disabled once, with one event, for both, and
// what is for it fails unsent. Enabled, it is called again.
func TestAnEndpointThatFailsIsDisabled(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		s.add(t, "ep_1", hook)
		c := &clock{}
		one, other := newProcess(t, s, c), newProcess(t, s, c)
		failFor(t, c, 4, one, other)
		if words := one.Words(hook); !strings.HasPrefix(words, "webhook endpoint ep_1 fails since ") ||
			!strings.HasSuffix(words, "503: down for good") || s.happened(t) != nil {
			t.Fatalf("after four days: %q, %v", words, s.happened(t))
		}
		failFor(t, c, 2, one, other)
		for name, p := range map[string]*process{"one": one, "the other": other} {
			p.round(t)
			calls := p.calls
			p.send(t, nil)
			failure := p.outcome
			if failure == nil || failure.Class != push.Permanent || failure.Code != "endpoint_disabled" ||
				failure.Counts() || p.calls != calls {
				t.Errorf("%s sends with %v", name, failure)
			}
		}
		if told := s.happened(t); len(told) != 1 || told[0] != "endpoint.disabled ep_1" {
			t.Errorf("the events are %v", told)
		}
		service := endpoints.Service{Store: endpoints.NewStore(one.store), CheckURL: func(string) error { return nil }}
		for range 2 { // a second time changes nothing
			if e, err := service.Enable(t.Context(), "ep_1"); err != nil || e.State() != endpoints.StateOK {
				t.Fatalf("enabled: %v", err)
			}
		}
		other.round(t)
		if other.send(t, nil); other.outcome != nil || len(s.happened(t)) != 2 {
			t.Errorf("once it is enabled: %v, %v", other.outcome, s.happened(t))
		}
	})
}

// A success anywhere clears the failures of all, also one that is noted while another process notes a failure, and one
// that comes late because its process could not reach the store.
func TestASuccessAnywhereClears(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		s.add(t, "ep_1", hook)
		c := &clock{}
		failing, good := newProcess(t, s, c), newProcess(t, s, c)
		failFor(t, c, 2, failing)
		good.round(t)
		good.send(t, nil)
		good.away = errors.New("away")
		good.round(t)
		c.forward(time.Hour)
		failing.store.between = sync.OnceFunc(func() { // the other's note comes between the reading and the writing
			good.away = nil
			good.round(t)
		})
		failing.send(t, down)
		failing.round(t)
		if e := s.get(t, "ep_1"); !e.Failing() || !e.LastSuccess.Before(e.FailingSince) || e.Failures != 1 {
			t.Errorf("both are noted as %+v", e.Health)
		}
		good.round(t) // learns that it fails
		good.send(t, nil)
		good.round(t)
		if e := s.get(t, "ep_1"); e.State() != endpoints.StateOK || e.LastFailure.IsZero() {
			t.Errorf("after a success: %+v", e.Health)
		}
	})
}

// The log says that an endpoint is disabled when it is, and that it is enabled when a success is noted late.
func TestTheLogTellsWhatBecomesOfAnEndpoint(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		s.add(t, "ep_1", hook)
		c := &clock{}
		failing, good := newProcess(t, s, c), newProcess(t, s, c)
		failFor(t, c, 1, failing)
		good.send(t, nil)
		good.away = errors.New("away")
		good.round(t)
		failFor(t, c, 6, failing)
		const disabled = "a webhook endpoint is disabled"
		if log := failing.log.String(); strings.Count(log, disabled) != 1 ||
			!strings.Contains(log, "endpoint=ep_1 reason=\"nothing was delivered from ") {
			t.Errorf("the one that disabled it logs %s", log)
		}
		good.away = nil
		good.round(t)
		log := good.log.String()
		if e := s.get(t, "ep_1"); e.Disabled() || strings.Contains(log, disabled) ||
			!strings.Contains(log, "a webhook endpoint is enabled again") {
			t.Errorf("after the late success it is %s, and the log says %s", e.State(), log)
		}
	})
}

// A process that dies after what it saw was written, before it knows that, notes it again: it counts once, and there is
// one event.
func TestNotedTwiceIsNotedOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		s.add(t, "ep_1", hook)
		c := &clock{}
		p := newProcess(t, s, c)
		gone := &push.Error{Class: push.TargetGone, Code: "410"}
		p.store.Store = lostReply{s.records}
		p.send(t, down)
		c.forward(time.Second)
		p.send(t, gone)
		for range 3 {
			p.round(t)
		}
		if e := s.get(t, "ep_1"); e.Failures != 2 || !e.Disabled() || len(s.happened(t)) != 1 {
			t.Errorf("noted are %+v, and %v", e.Health, s.happened(t))
		}
	})
}

// lostReply is a store whose replies to writes are lost.
type lostReply struct{ record.Store }

// Write implements [record.Documents].
func (l lostReply) Write(ctx context.Context, w record.Write) (int64, error) {
	_, err := l.Store.Write(ctx, w)
	return 0, errors.Join(err, errors.New("the reply is lost"))
}

// A process writes at most once a minute that an endpoint goes on failing, and nothing for what was not tried.
func TestHealthIsNotedSeldom(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		s.add(t, "ep_1", hook)
		c := &clock{}
		p := newProcess(t, s, c)
		noted := 0
		p.store.between = func() { noted++ }
		for _, untried := range []*push.Error{
			{Class: push.Throttled, Code: "breaker_open", Unsent: true},
			{Class: push.Transient, Code: "cancelled"},
			{Class: push.Permanent, Code: "bad_request", Unsent: true},
		} {
			p.send(t, untried)
			p.round(t)
		}
		if noted != 0 {
			t.Error("what was not tried is noted")
		}
		for range 180 {
			p.send(t, down)
			p.round(t)
			c.forward(time.Second)
		}
		if noted != 3 {
			t.Errorf("180 failures in three minutes are noted %d times, want 3", noted)
		}
		for range 3 {
			p.send(t, nil)
			p.round(t)
			c.forward(time.Second)
		}
		if noted != 4 {
			t.Errorf("the recovery is noted %d times, want once", noted-3)
		}
	})
}

// What is registered, changed and removed comes into force at the next look, and stays while the store is away. A store
// that lost changes is read anew.
func TestTheDirectoryFollows(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		c := &clock{}
		p := newProcess(t, s, c)
		service := endpoints.Service{Store: endpoints.NewStore(p.store), CheckURL: func(string) error { return nil }}
		state := func() string {
			keys, header, ok := p.Registered("HTTPS://example.com:443/hook")
			return fmt.Sprint(ok, len(keys), header)
		}
		look := func(when, want string) {
			t.Helper()
			p.round(t)
			if got := state(); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		look("at first", "false 0 map[]")
		url, headers := hook, map[string]string{"x-a": "1"}
		e, err := service.Create(t.Context(), endpoints.Form{URL: &url, Headers: &headers})
		if err != nil {
			t.Fatal(err)
		}
		look("registered", "true 1 map[X-A:[1]]")
		for range 3 {
			scheme := string(signing.Ed25519)
			if _, err := service.Rotate(t.Context(), e.ID, endpoints.Form{Signing: &scheme}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := service.Rotate(t.Context(), e.ID, endpoints.Form{}); !errors.Is(err, endpoints.ErrRotated) {
			t.Errorf("rotated once too often: %v", err)
		}
		look("rotated three times", "true 4 map[X-A:[1]]")
		p.away = errors.New("away")
		c.forward(24*time.Hour + time.Minute)
		look("a day later, while the store is away", "true 1 map[X-A:[1]]")
		p.away = nil
		moved := hook + "/2"
		if _, err := service.Update(t.Context(), e.ID, endpoints.Form{URL: &moved}); err != nil {
			t.Fatal(err)
		}
		look("moved", "false 0 map[]")
		back := endpoints.Form{URL: &url, Headers: &map[string]string{}}
		if _, err := service.Update(t.Context(), e.ID, back); err != nil {
			t.Fatal(err)
		}
		look("moved back", "true 1 map[]")
		if err := s.Remove(t.Context(), e.ID); err != nil {
			t.Fatal(err)
		}
		look("removed", "false 0 map[]")
	})
}

// A process that has not read that an endpoint was removed, before the store forgot it, knows it too: also when
// its first look after that fails half-way.
func TestAForgottenRemovalIsNoticed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		s.add(t, "ep_1", hook)
		s.add(t, "ep_2", hook+"/2")
		p := newProcess(t, s, &clock{})
		s.remove(t, "ep_1")
		s.Store = s.Keeping(time.Nanosecond)
		s.add(t, "ep_3", hook+"/3") // the store forgets ep_1
		p.store.unread = errors.New("too slow")
		if err := p.Refresh(t.Context()); !errors.Is(err, p.store.unread) {
			t.Fatalf("the first look: %v", err)
		}
		p.store.unread = nil
		p.round(t)
		for url, want := range map[string]bool{hook: false, hook + "/2": true, hook + "/3": true} {
			if _, _, ok := p.Registered(url); ok != want {
				t.Errorf("%s is registered: %t, want %t", url, ok, want)
			}
		}
	})
}

// The metric counts the endpoints by state, without a label for each.
func TestEndpointsAreCounted(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		s.add(t, "ep_1", hook)
		s.add(t, "ep_2", hook+"/2")
		c := &clock{}
		p := newProcess(t, s, c)
		p.send(t, &push.Error{Class: push.TargetGone, Code: "410"})
		p.round(t)
		registry := prometheus.NewRegistry()
		registry.MustRegister(p)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]float64{}
		for _, m := range families[0].GetMetric() {
			counts[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
		name := families[0].GetName()
		if fmt.Sprint(counts) != "map[disabled:1 failing:0 ok:1]" || name != "pacer_webhook_endpoints" {
			t.Errorf("%s is %v", name, counts)
		}
		if all := p.Troubled(); len(all) != 1 || all[0].ID != "ep_1" {
			t.Errorf("in trouble are %+v", all)
		}
	})
}

// What is wrong with an endpoint is said by field, and never shows a value that may be a secret.
func TestWrongEndpointsAreRefused(t *testing.T) {
	t.Parallel()
	store := storesIn(recordtest.OnRedis(redistest.Mini(t))).Store
	service := endpoints.Service{Store: store, CheckURL: func(url string) error {
		if url != hook {
			return errors.New("must be ours")
		}
		return nil
	}}
	transcript.Play(t, "testdata/forms.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		var form endpoints.Form
		if err := json.Unmarshal([]byte(lines[0]), &form); err != nil {
			t.Fatalf("%s: %v", lines[0], err)
		}
		_, err := service.Create(t.Context(), form)
		if len(notification.FieldErrors(err)) != 1 || strings.Contains(err.Error(), "unter2") {
			t.Fatalf("%s is refused with %v", lines[0], err)
		}
		return err.Error()
	})
	if all, err := service.Store.List(t.Context(), "", 10); err != nil || len(all) != 0 {
		t.Errorf("registered are %+v, %v", all, err)
	}
}

// A secret that can't be read any more does not sign, and stops nothing.
func TestUnreadableSecretsDoNotSign(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s stores) {
		if err := s.Add(t.Context(), &endpoints.Endpoint{ID: "ep_1", URL: hook, Secret: secret.New("x")}); err != nil {
			t.Fatal(err)
		}
		p := newProcess(t, s, &clock{})
		if keys, _, ok := p.Registered(hook); !ok || len(keys) != 0 {
			t.Errorf("it is registered %t, with %d keys", ok, len(keys))
		}
	})
}
