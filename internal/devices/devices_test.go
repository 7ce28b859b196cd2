package devices_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store keeps the devices of one user.
type store struct {
	devices.Store
	fault error

	mu          sync.Mutex
	devices     []notification.Device
	deliveries  map[string]notification.Delivery
	deactivated map[string]time.Time
}

func newStore(active ...string) *store {
	s := &store{deliveries: map[string]notification.Delivery{}, deactivated: map[string]time.Time{}}
	for _, id := range active {
		s.devices = append(s.devices, notification.Device{
			UserID: "ada", ID: id, Channel: "webhook", Target: "to " + id, Active: true,
		})
	}
	return s
}

func (s *store) Devices(context.Context, string) ([]notification.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.devices), s.fault
}

func (s *store) Deliveries(context.Context, *notification.Notification) (all []notification.Delivery, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.deliveries {
		all = append(all, d)
	}
	return all, s.fault
}

func (s *store) NoteDelivery(_ context.Context, _ *notification.Notification, d notification.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries[d.DeviceID] = d
	return nil
}

func (s *store) Deactivate(_ context.Context, d *notification.Device, since time.Time, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deactivated[d.ID] = since
	for i := range s.devices {
		s.devices[i].Active = s.devices[i].Active && s.devices[i].ID != d.ID
	}
	return nil
}

// provider has a result for each target; nil, a delivery, unless told otherwise.
type provider struct {
	push.Checker
	results map[string]error
	panics  string // for this target

	mu      sync.Mutex
	sent    []string
	passive int            // of all that were sent
	attempt map[string]int // of the latest message to a target
}

func (p *provider) Send(_ context.Context, m push.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, m.To)
	if p.attempt == nil {
		p.attempt = map[string]int{}
	}
	p.attempt[m.To] = m.Attempt
	if m.Passive {
		p.passive++
	}
	if p.panics == m.To {
		panic("boom")
	}
	return p.results[m.To]
}

// took returns the targets that were sent to since the last call.
func (p *provider) took() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	slices.Sort(sent)
	return sent
}

func message(attempt int) push.Message {
	return push.Message{
		Notification: &notification.Notification{ID: "n1", UserID: "ada", Channel: "webhook"}, Attempt: attempt,
	}
}

func same(want, got *push.Error) bool {
	return (want == nil) == (got == nil) && (got == nil || *got == *want)
}

// send makes an attempt, and compares the targets that it went to, and its result.
func send(t *testing.T, f *devices.Fanout, p *provider, attempt int, to []string, want *push.Error) {
	t.Helper()
	err := f.Send(t.Context(), message(attempt))
	if diff := cmp.Diff(to, p.took()); diff != "" {
		t.Errorf("attempt %d went to (-want +got):\n%s", attempt, diff)
	}
	got, _ := errors.AsType[*push.Error](err)
	if !same(want, got) {
		t.Errorf("attempt %d: got %+v, want %+v", attempt, got, want)
	}
}

// A device that has received the notification, or never will, is not tried again. The others are.
func TestEachDeviceEndsByItself(t *testing.T) {
	t.Parallel()
	since := time.Unix(1_800_000_000, 0)
	s := newStore("a", "b", "c", "d")
	s.devices = append(s.devices,
		notification.Device{ID: "off", Channel: "webhook", Target: "to off"},
		notification.Device{ID: "fcm", Channel: "fcm", Target: "to fcm", Active: true},
	)
	p := &provider{results: map[string]error{
		"to b": &push.Error{Class: push.TargetGone, Code: "410", GoneSince: since},
		"to c": &push.Error{Class: push.Transient, Code: "503", RetryAfter: 3 * time.Second},
		"to d": &push.Error{Class: push.Throttled, Code: "429", RetryAfter: 9 * time.Second},
	}}
	f := devices.NewFanout("webhook", p, s, slog.New(slog.DiscardHandler))
	later := &push.Error{Class: push.Transient, Code: "503", RetryAfter: 9 * time.Second, Partial: true, Reached: true}
	send(t, f, p, 1, []string{"to a", "to b", "to c", "to d"}, later)
	again := *later
	again.Reached = false
	send(t, f, p, 2, []string{"to c", "to d"}, &again)
	delete(p.results, "to d")
	p.results["to c"] = &push.Error{Class: push.Permanent, Code: "400"}
	send(t, f, p, 3, []string{"to c", "to d"}, nil)
	send(t, f, p, 4, nil, &push.Error{Class: push.AlreadyDelivered, Code: "devices", Partial: true, Unsent: true})
	want := map[string]notification.Delivery{
		"a": {DeviceID: "a", Attempts: 1, Ended: true, Outcome: "delivered"},
		"b": {DeviceID: "b", Attempts: 1, Ended: true, Outcome: "target_gone: 410"},
		"c": {DeviceID: "c", Attempts: 3, Ended: true, Outcome: "permanent: 400"},
		"d": {DeviceID: "d", Attempts: 3, Ended: true, Outcome: "delivered"},
	}
	if diff := cmp.Diff(want, s.deliveries); diff != "" {
		t.Errorf("deliveries differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]time.Time{"b": since}, s.deactivated); diff != "" {
		t.Errorf("deactivated differ (-want +got):\n%s", diff)
	}
}

// An attempt has one result for all devices.
func TestOneResultForAllDevices(t *testing.T) {
	t.Parallel()
	refused, gone := &push.Error{Class: push.Permanent, Code: "400"}, &push.Error{Class: push.TargetGone, Code: "410"}
	unsent := &push.Error{Class: push.Transient, Code: "dns", Unsent: true}
	for name, c := range map[string]struct {
		devices []string
		results map[string]error
		want    *push.Error
	}{
		"no device":    {want: &push.Error{Class: push.Permanent, Code: "no_device", Unsent: true}},
		"both took it": {devices: []string{"a", "b"}},
		"one took it":  {devices: []string{"a", "b"}, results: map[string]error{"to b": refused}},
		"the only one is gone": {
			devices: []string{"a"}, results: map[string]error{"to a": gone},
			want: gone,
		},
		"unsent": {devices: []string{"a"}, results: map[string]error{"to a": unsent}, want: unsent},
		"unsent to one": {
			devices: []string{"a", "b"}, results: map[string]error{"to a": unsent},
			want: &push.Error{Class: push.Transient, Code: "dns", Partial: true, Reached: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &provider{results: c.results}
			f := devices.NewFanout("webhook", p, newStore(c.devices...), slog.New(slog.DiscardHandler))
			got, _ := errors.AsType[*push.Error](f.Send(t.Context(), message(1)))
			if !same(c.want, got) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A notification with a target of its own only goes there, and nobody looks for devices.
func TestTargetOfItsOwn(t *testing.T) {
	t.Parallel()
	p := &provider{}
	m := message(1)
	m.To = "there"
	s := newStore("a")
	s.fault = errors.New("the store is away")
	f := devices.NewFanout("webhook", p, s, slog.New(slog.DiscardHandler))
	if err := f.Send(t.Context(), m); err != nil || !slices.Equal(p.took(), []string{"there"}) {
		t.Errorf("returns %v", err)
	}
	send(t, f, p, 1, nil, &push.Error{Class: push.Transient, Code: "devices_unknown", Unsent: true, Err: s.fault})
}

// A device whose provider asks to slow down was tried, although nothing arrived: it waits longer each time, and not for
// ever.
func TestADeviceThatAsksToSlowDownWasTried(t *testing.T) {
	t.Parallel()
	busy := &push.Error{Class: push.Throttled, Code: "429"}
	budget := &push.Error{Class: push.Throttled, Code: "provider_budget", Unsent: true}
	for name, c := range map[string]struct {
		results map[string]error
		unsent  bool
	}{
		"one asked":  {results: map[string]error{"to a": busy, "to b": budget}},
		"none asked": {results: map[string]error{"to a": budget, "to b": budget}, unsent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := devices.NewFanout("webhook", &provider{results: c.results}, newStore("a", "b"), slog.New(slog.DiscardHandler))
			got := push.Classify(f.Send(t.Context(), push.Message{
				Notification: &notification.Notification{ID: "n1", UserID: "ada"}, Attempt: 1,
			}))
			if got == nil || got.Class != push.Throttled || got.Unsent != c.unsent || got.Counts() {
				t.Errorf("got %+v, want throttled, unsent %t, without a slot", got, c.unsent)
			}
		})
	}
}

// An attempt counts against the user once, when it reached a device or may have reached one, however many there are.
// What an earlier attempt reached does not count.
func TestWhatCountsAgainstTheUser(t *testing.T) {
	t.Parallel()
	refused := &push.Error{Class: push.CredentialsRefused, Code: "401"}
	budget := &push.Error{Class: push.Throttled, Code: "provider_budget", Unsent: true, RetryAfter: time.Second}
	busy := &push.Error{Class: push.Throttled, Code: "429"}
	closed := &push.Error{Class: push.Transient, Code: "connection_refused", Unsent: true}
	timeout := &push.Error{Class: push.Ambiguous, Code: "timeout"}
	failing := &push.Error{Class: push.Transient, Code: "503"}
	gone := &push.Error{Class: push.TargetGone, Code: "410"}
	had := []string{"a"}
	for name, c := range map[string]struct {
		had     []string // by an earlier attempt
		results map[string]error
		counts  bool
		class   push.Class // 0: delivered
	}{
		"one took it, one is refused": {
			results: map[string]error{"to b": refused}, counts: true, class: push.CredentialsRefused,
		},
		"one took it, one waits for the budget": {
			results: map[string]error{"to b": budget}, counts: true, class: push.Throttled,
		},
		"one took it, one can't be reached": {
			results: map[string]error{"to b": closed}, counts: true, class: push.Transient,
		},
		"both refused": {
			results: map[string]error{"to a": refused, "to b": refused}, counts: false, class: push.CredentialsRefused,
		},
		"one refused, one can't be reached": {
			results: map[string]error{"to a": refused, "to b": closed}, counts: false, class: push.Transient,
		},
		"one refused, one may have it": {
			results: map[string]error{"to a": refused, "to b": timeout}, counts: true, class: push.Ambiguous,
		},
		"one asks to slow down, one is unsent": {
			results: map[string]error{"to a": busy, "to b": budget}, counts: false, class: push.Throttled,
		},
		"a repeat waits for the budget": {
			had: had, results: map[string]error{"to b": budget}, counts: false, class: push.Throttled,
		},
		"a repeat is refused": {
			had: had, results: map[string]error{"to b": refused}, counts: false, class: push.CredentialsRefused,
		},
		"a repeat can't be reached": {
			had: had, results: map[string]error{"to b": closed}, counts: false, class: push.Transient,
		},
		"a repeat finds the other failing": {
			had: had, results: map[string]error{"to b": failing}, counts: false, class: push.Transient,
		},
		"a repeat finds the other gone": {
			had: had, results: map[string]error{"to b": gone}, counts: false, class: push.TargetGone,
		},
		"one took it, one is failing": {
			results: map[string]error{"to b": failing}, counts: true, class: push.Transient,
		},
		"both are failing": {
			results: map[string]error{"to a": failing, "to b": failing}, counts: false, class: push.Transient,
		},
		"one is failing, one is gone": {
			results: map[string]error{"to a": failing, "to b": gone}, counts: false, class: push.Transient,
		},
		"a repeat may have reached the other": {
			had: had, results: map[string]error{"to b": timeout}, counts: true, class: push.Ambiguous,
		},
		"a repeat reaches the other": {had: had, counts: true, class: 0},
		"a repeat finds nobody who has not had it": {
			had: []string{"a", "b"}, counts: false, class: push.AlreadyDelivered,
		},
		"a repeat that nothing is sent of any more": {
			had:     had,
			results: map[string]error{"to b": &push.Error{Class: push.Permanent, Code: "bad_request", Unsent: true}},
			counts:  false, class: push.AlreadyDelivered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore("a", "b")
			for _, id := range c.had {
				s.deliveries[id] = notification.Delivery{
					DeviceID: id, Attempts: 1, Ended: true, Outcome: notification.OutcomeDelivered,
				}
			}
			attempt := 1 + min(1, len(c.had))
			f := devices.NewFanout("webhook", &provider{results: c.results}, s, slog.New(slog.DiscardHandler))
			failure := push.Classify(f.Send(t.Context(), message(attempt)))
			if failure == nil {
				failure = &push.Error{}
			}
			if failure.Class != c.class || failure.Counts() != c.counts {
				t.Errorf("got %+v, which counts: %t; want class %s, counts: %t", failure, failure.Counts(), c.class,
					c.counts)
			}
		})
	}
}

// What is not to disturb disturbs on no device, at the first attempt and at a retry; the next one does again.
func TestAPassiveDeliveryIsPassiveOnEachDevice(t *testing.T) {
	t.Parallel()
	away := &push.Error{Class: push.Transient, Code: "503"}
	p := &provider{results: map[string]error{"to tablet": away}}
	f := devices.NewFanout("webhook", p, newStore("phone", "tablet", "watch"), slog.New(slog.DiscardHandler))
	quiet := message(1)
	quiet.Passive = true
	if err := f.Send(t.Context(), quiet); err == nil || p.passive != 3 {
		t.Errorf("%d of %v are passive, %v; want all three, and the error of one", p.passive, p.took(), err)
	}
	p.took()
	quiet.Attempt = 2
	_ = f.Send(t.Context(), quiet) // fails again
	if sent := p.took(); !slices.Equal(sent, []string{"to tablet"}) || p.passive != 4 {
		t.Errorf("the retry went to %v, %d are passive, want that one too", sent, p.passive)
	}
	delete(p.results, "to tablet")
	if err := f.Send(t.Context(), message(3)); err != nil || p.passive != 4 {
		t.Errorf("by day %d are passive, %v; want none more", p.passive, err)
	}
}

// asking asks before each call whether it may begin, as a gate does, and takes a second for it.
type asking struct{ provider }

func (a *asking) Send(ctx context.Context, m push.Message) error {
	if !m.Deadline.Begin() {
		return push.Late()
	}
	<-time.After(time.Second)
	return a.provider.Send(ctx, m)
}

// The devices of a user share one admission. When the first call begins in time, the calls to the other devices may
// begin after the deadline. When none begins in time, none is made.
func TestDevicesShareOneDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for i := range 20 { // more than are sent to at the same time
			ids = append(ids, "phone"+strconv.Itoa(i))
		}
		a := &asking{}
		f := devices.NewFanout("webhook", a, newStore(ids...), slog.New(slog.DiscardHandler))
		m := message(1)
		m.Deadline = push.NewDeadline(time.Now().Add(250 * time.Millisecond))
		if err := f.Send(t.Context(), m); err != nil || len(a.took()) != len(ids) {
			t.Errorf("%v, want all %d devices to have it", err, len(ids))
		}
		m.Deadline = push.NewDeadline(time.Now().Add(-time.Millisecond))
		failure := push.Classify(f.Send(t.Context(), m))
		if sent := a.took(); failure == nil || failure.Code != push.CodeLate || failure.Counts() || len(sent) > 0 {
			t.Errorf("after the deadline: %+v, sent to %v; want it late, and none", failure, sent)
		}
	})
}
