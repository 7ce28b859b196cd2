package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
)

// drawDeliveries adds what a file may say of deliveries.
func drawDeliveries(t *rapid.T, p *policy.Policy) {
	if rapid.Bool().Draw(t, "has a retry") {
		said := notification.DeliverySettings{Retry: drawRetry(t)}
		p.Retry = said.Over(notification.DefaultDelivery()).Retry
	}
	for _, name := range []notification.Channel{notification.ChannelWebhook, "fcm", "fcm:shop"} {
		if rapid.Bool().Draw(t, "names "+string(name)) {
			if p.Channels == nil {
				p.Channels = map[notification.Channel]policy.Delivery{}
			}
			p.Channels[name] = drawDelivery(t, name == notification.ChannelWebhook)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Categories)) {
		said := drawDelivery(t, true)
		if said.Final == nil && cmp.Equal(said.DeliverySettings, notification.DeliverySettings{}) {
			continue
		}
		if p.Deliveries == nil {
			p.Deliveries = map[string]policy.Delivery{}
		}
		p.Deliveries[name] = said
	}
}

func drawDelivery(t *rapid.T, webhooks bool) policy.Delivery {
	said := policy.Delivery{DeliverySettings: notification.DeliverySettings{Retry: drawRetry(t)}}
	if rapid.Bool().Draw(t, "has a time-out") {
		said.Timeout = time.Duration(
			rapid.Int64Range(int64(policy.MinTimeout), int64(policy.MaxTimeout)).Draw(t, "timeout"))
	}
	if rapid.Bool().Draw(t, "has a bound") {
		said.Concurrency = rapid.IntRange(1, policy.MaxConcurrency).Draw(t, "concurrency")
	}
	if webhooks && rapid.Bool().Draw(t, "has final ones") {
		said.Final = rapid.SliceOfDistinct(rapid.SampledFrom([]int{3, 4, 300, 400, 404, 410, 499}),
			func(status int) int { return status }).Draw(t, "final")
	}
	return said
}

func drawRetry(t *rapid.T) (r notification.Retry) {
	wait := rapid.Int64Range(1, int64(policy.MaxWait))
	most := policy.MaxRetryAttempts
	switch rapid.SampledFrom([]string{"nothing", "bounds", "schedule"}).Draw(t, "waits") {
	case "bounds":
		r.MinBackoff = time.Duration(wait.Draw(t, "min_backoff"))
		longer := rapid.Int64Range(int64(r.MinBackoff), int64(policy.MaxWait))
		r.MaxBackoff = time.Duration(longer.Draw(t, "max_backoff"))
	case "schedule":
		for _, step := range rapid.SliceOfN(wait, 1, policy.MaxRetryAttempts-1).Draw(t, "schedule") {
			r.Schedule = append(r.Schedule, time.Duration(step))
		}
		most = len(r.Schedule) + 1
	}
	if rapid.Bool().Draw(t, "has a number") {
		r.MaxAttempts = rapid.IntRange(1, most).Draw(t, "max_attempts")
	}
	return r
}

// nearest is what the first level says that says anything.
func nearest[T any](levels []policy.Delivery, says func(policy.Delivery) (T, bool)) T {
	for _, level := range levels {
		if value, ok := says(level); ok {
			return value
		}
	}
	var none T
	return none
}

// naive is what holds, looked up key by key from the nearest part of the file outwards, by the words of docs/policy.md.
func naive(p *policy.Policy, category string, channel notification.Channel,
	own notification.DeliverySettings,
) notification.DeliverySettings {
	levels := []policy.Delivery{p.Deliveries[category], p.Channels[channel]}
	if kind, _, named := strings.Cut(string(channel), ":"); named {
		levels = append(levels, p.Channels[notification.Channel(kind)])
	}
	if p.Retry.MaxAttempts > 0 { // the file's retry says all of it
		levels = append(levels, policy.Delivery{DeliverySettings: notification.DeliverySettings{Retry: p.Retry}})
	}
	general := notification.DefaultDelivery()
	levels = append(levels, policy.Delivery{DeliverySettings: own}, policy.Delivery{DeliverySettings: general})

	waits := nearest(levels, func(d policy.Delivery) (notification.Retry, bool) {
		return d.Retry, len(d.Retry.Schedule) > 0 || d.Retry.MaxBackoff > 0
	})
	want := notification.DeliverySettings{
		Timeout: nearest(levels, func(d policy.Delivery) (time.Duration, bool) { return d.Timeout, d.Timeout > 0 }),
		Retry: notification.Retry{
			Schedule: waits.Schedule, MinBackoff: waits.MinBackoff, MaxBackoff: waits.MaxBackoff,
			MaxAttempts: nearest(levels, func(d policy.Delivery) (int, bool) {
				if d.Retry.MaxAttempts == 0 && len(d.Retry.Schedule) > 0 {
					return len(d.Retry.Schedule) + 1, true
				}
				return d.Retry.MaxAttempts, d.Retry.MaxAttempts > 0
			}),
		},
		// Both bounds hold, each over its own.
		Concurrency: nearest(levels[1:], func(d policy.Delivery) (int, bool) {
			return d.Concurrency, d.Concurrency > 0
		}),
	}
	if n := len(waits.Schedule); n > 0 {
		want.Retry.MaxAttempts = min(want.Retry.MaxAttempts, n+1)
	}
	return want
}

// What holds for a category over a channel is what the nearest part of the file says that says anything of it.
func TestWhatIsSaidNearerHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &policy.Policy{Categories: map[string]policy.Category{"default": {}, "chat": {}}}
		drawDeliveries(t, p)
		own := drawDelivery(t, false).DeliverySettings
		category := rapid.SampledFrom([]string{"default", "chat", "gone"}).Draw(t, "category")
		channels := []notification.Channel{"webhook", "fcm", "fcm:shop", "email", "email:x"}
		channel := rapid.SampledFrom(channels).Draw(t, "channel")
		if diff := cmp.Diff(naive(p, category, channel, own), p.Delivery(category, channel, own)); diff != "" {
			t.Fatalf("%s over %s (-want +got):\n%s", category, channel, diff)
		}
	})
}

// A category's list of final responses holds instead of that of the channel, and what asks to try again is never final.
func TestFinalResponses(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(`version: 1
categories:
  default: {}
  once: {webhook: {final: [3xx, 4xx]}}
  stubborn: {webhook: {final: []}}
channels:
  webhook: {final: [400, 404]}
  "webhook:partner": {final: [404]}
`), "webhook", "fcm")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, category := range []string{"default", "once", "stubborn", "gone"} {
		for _, status := range []int{200, 302, 400, 404, 408, 410, 425, 429, 500, 0} {
			if p.EndsAt(category, "webhook", status) {
				got = append(got, fmt.Sprintf("%s %d", category, status))
			}
			if p.EndsAt(category, "webhook:partner", status) {
				got = append(got, fmt.Sprintf("%s partner %d", category, status))
			}
		}
	}
	want := "default 400, default 404, default partner 404, once 302, once partner 302, once 400, once partner 400, " +
		"once 404, once partner 404, once 410, once partner 410, gone 400, gone 404, gone partner 404"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("final are %s\nwant %s", text, want)
	}
}

// A channel that there is not is refused where the channels are known, and the file of another version is read.
func TestUnknownChannels(t *testing.T) {
	t.Parallel()
	text := []byte("version: 1\ncategories: {default: {}}\nchannels:\n  webhok: {timeout: 5s}\n")
	_, err := policy.Parse("p", text, "fcm", "webhook")
	if want := "p:4:3: channels.webhok: unknown channel (did you mean webhook?); known here: fcm, webhook"; err == nil ||
		err.Error() != want {
		t.Errorf("refused with %v\nwant %s", err, want)
	}
	p, err := policy.Parse("p", text)
	if err != nil || !slices.Contains([]time.Duration{5 * time.Second}, p.Channels["webhok"].Timeout) {
		t.Errorf("without a list of channels: %v", err)
	}
}
