package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Delivery is what a part of the file says of deliveries: of those over a channel, or of those of a category. A zero
// field says nothing.
type Delivery struct {
	notification.DeliverySettings
	// Final are the responses of webhooks after which a notification ends as failed; 3 stands for each of 3xx, 4 for
	// each of 4xx that does not ask to try again. An empty list says that there are none, nil nothing.
	Final []int
}

// Delivery returns the settings of a category's deliveries over a channel that has these of its own. The most specific
// setting wins: the category's, then the channel's in the file (a named sender's, then its kind's), then the file's
// retry, then the channel's own. Concurrency is the channel's; the category's applies besides.
func (p *Policy) Delivery(category string, channel notification.Channel,
	own notification.DeliverySettings,
) notification.DeliverySettings {
	general := notification.DefaultDelivery()
	settings := own.Over(general)
	if p.Retry.MaxAttempts > 0 {
		settings.Retry = p.Retry
	}
	settings = p.Channels[channel.Kind()].Over(settings)
	if channel.Kind() != channel {
		settings = p.Channels[channel].Over(settings)
	}
	concurrency := settings.Concurrency
	settings = p.Deliveries[category].Over(settings)
	settings.Concurrency = concurrency
	if waits := len(settings.Retry.Schedule); waits > 0 {
		settings.Retry.MaxAttempts = min(settings.Retry.MaxAttempts, waits+1)
	}
	return settings
}

// tryAgain are the responses by which a webhook asks to try again: they are never final.
var tryAgain = []int{408, 425, 429}

// FinalOf lists the responses after which a notification of a category ends as failed, over a channel of webhooks.
func (p *Policy) FinalOf(category string, channel notification.Channel) []int {
	for _, final := range [][]int{
		p.Deliveries[category].Final, p.Channels[channel].Final, p.Channels[channel.Kind()].Final,
	} {
		if final != nil {
			return final
		}
	}
	return nil
}

// EndsAt reports whether a notification of a category ends as failed when a webhook responds with a status.
func (p *Policy) EndsAt(category string, channel notification.Channel, status int) bool {
	final := p.FinalOf(category, channel)
	return slices.Contains(final, status) || slices.Contains(final, status/100) && !slices.Contains(tryAgain, status)
}

// deliveryKeys are the keys of a channel, which a category has too.
var deliveryKeys = []string{"retry", "timeout", "concurrency"}

// deliveryReader reads how deliveries are made.
type deliveryReader struct{ *document }

func (d deliveryReader) readChannels(e entry) map[notification.Channel]Delivery {
	entries, ok := d.entries(e.name, e.value)
	if !ok {
		return nil
	}
	channels := make(map[notification.Channel]Delivery, len(entries))
	for _, e := range entries {
		path, keys := join("channels", e.name), deliveryKeys
		kind := notification.Channel(e.name).Kind()
		if len(d.channels) > 0 && !slices.Contains(d.channels, string(kind)) {
			d.add(e.key, path, "unknown channel%s; known here: %s", nearest.Hint(e.name, d.channels),
				strings.Join(d.channels, ", "))
			continue
		}
		if kind == notification.ChannelWebhook {
			keys = append(slices.Clip(keys), "final")
		}
		if fields, ok := d.fields(path, e.value, keys...); ok {
			channels[notification.Channel(e.name)] = d.readDelivery(path, fields)
		}
	}
	return channels
}

// readDeliveryOf reads what a category says of deliveries, if it says anything.
func (d deliveryReader) readDeliveryOf(p *Policy, path, category string, fields map[string]entry) {
	said := d.readDelivery(path, fields)
	if f, ok := fields["webhook"]; ok {
		said.Final = d.readWebhook(join(path, "webhook"), f)
	}
	if said.Final == nil && said.Retry.MaxAttempts == 0 && said.Retry.MaxBackoff == 0 && said.Retry.Schedule == nil &&
		said.Timeout == 0 && said.Concurrency == 0 {
		return
	}
	if p.Deliveries == nil {
		p.Deliveries = map[string]Delivery{}
	}
	p.Deliveries[category] = said
}

// readDelivery reads what the keys of a channel or a category say of deliveries.
func (d deliveryReader) readDelivery(path string, fields map[string]entry) Delivery {
	var said Delivery
	if f, ok := fields["retry"]; ok {
		said.Retry = d.readRetry(join(path, "retry"), f)
	}
	if f, ok := fields["timeout"]; ok {
		said.Timeout = d.duration(join(path, "timeout"), f.value, MinTimeout, MaxTimeout)
	}
	if f, ok := fields["concurrency"]; ok {
		said.Concurrency = d.wholeNumber(join(path, "concurrency"), f.value, 1, MaxConcurrency)
	}
	if f, ok := fields["final"]; ok {
		said.Final = d.readFinal(join(path, "final"), f.value)
	}
	return said
}

// readWebhook reads what a category says of webhooks alone.
func (d deliveryReader) readWebhook(path string, e entry) []int {
	fields, ok := d.fields(path, e.value, "final")
	if f, has := fields["final"]; has {
		return d.readFinal(join(path, "final"), f.value)
	}
	if ok {
		d.add(e.key, path, "needs final, a list of responses such as [400, 404] or [4xx]")
	}
	return nil
}

// readFinal reads a list of responses.
func (d deliveryReader) readFinal(path string, node ast.Node) []int {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.add(node, path, "must be a list of responses such as [400, 404] or [4xx]")
		return nil
	}
	final := make([]int, 0, len(list.Values))
	for i, value := range list.Values {
		item := path + "[" + strconv.Itoa(i) + "]"
		if value = d.follow(item, value); value == nil {
			continue
		}
		status := statusOf(value)
		switch {
		case slices.Contains(tryAgain, status):
			d.add(value, item, "%d asks to try again, so it can't be final", status)
		case status == 0:
			d.add(value, item, "must be a status between 300 and 499, 3xx or 4xx, is %s", nearest.Quote(value.String()))
		case slices.Contains(final, status):
			d.add(value, item, "is in the list already")
		default:
			final = append(final, status)
		}
	}
	return final
}

// statusOf reads a status, or 3xx and 4xx as 3 and 4; 0 for any other value.
func statusOf(node ast.Node) int {
	text, _ := scalar(node)
	switch text {
	case "3xx":
		return 3
	case "4xx":
		return 4
	}
	status, err := strconv.Atoi(text)
	if err != nil || status < 300 || status > 499 || strconv.Itoa(status) != text {
		return 0
	}
	return status
}

// readRetry reads how failed attempts are retried. What it does not say is zero, but the other one of two bounds.
func (d deliveryReader) readRetry(path string, e entry) notification.Retry {
	var r notification.Retry
	fields, ok := d.fields(path, e.value, "max_attempts", "min_backoff", "max_backoff", "schedule")
	if !ok {
		return r
	}
	attempts, limited := fields["max_attempts"]
	if limited {
		r.MaxAttempts = d.wholeNumber(join(path, "max_attempts"), attempts.value, 1, MaxRetryAttempts)
	}
	schedule, planned := fields["schedule"]
	if !planned {
		d.readBackoff(path, e, fields, &r)
		return r
	}
	r.Schedule = d.readSchedule(join(path, "schedule"), schedule.value)
	for _, bound := range []string{"min_backoff", "max_backoff"} {
		if f, both := fields[bound]; both {
			d.add(f.key, join(path, bound), "means nothing beside schedule; remove one of the two")
		}
	}
	if waits := len(r.Schedule); limited && waits > 0 && r.MaxAttempts > waits+1 {
		d.add(attempts.value, join(path, "max_attempts"), "must be at most %d, one more than schedule has waits, is %d",
			waits+1, r.MaxAttempts)
	}
	return r
}

// readBackoff reads the bounds of the waits.
func (d deliveryReader) readBackoff(path string, e entry, fields map[string]entry, r *notification.Retry) {
	before := len(d.faults)
	at := e.key
	longest, hasLongest := fields["max_backoff"]
	shortest, hasShortest := fields["min_backoff"]
	if !hasLongest && !hasShortest {
		return
	}
	r.MinBackoff, r.MaxBackoff = notification.DefaultMinBackoff, notification.DefaultMaxBackoff
	if hasLongest {
		r.MaxBackoff, at = d.duration(join(path, "max_backoff"), longest.value, 1, MaxWait), longest.value
	}
	if hasShortest {
		r.MinBackoff, at = d.duration(join(path, "min_backoff"), shortest.value, 1, MaxWait), shortest.value
	}
	// After a fault one of the two may only stand in for a duration that was refused.
	if len(d.faults) == before && r.MinBackoff > r.MaxBackoff {
		d.add(at, path, "min_backoff (%s) must not be longer than max_backoff (%s)",
			timespan.Text(r.MinBackoff), timespan.Text(r.MaxBackoff))
	}
}

// readSchedule reads the waits between attempts.
func (d deliveryReader) readSchedule(path string, node ast.Node) []time.Duration {
	list, ok := node.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		d.add(node, path, "must be a list of waits such as [5s, 5m, 2h]; for no retry write max_attempts: 1")
		return nil
	}
	if len(list.Values) >= MaxRetryAttempts {
		d.add(node, path, "has %d waits, more than the %d that there may be", len(list.Values), MaxRetryAttempts-1)
		return nil
	}
	schedule := make([]time.Duration, 0, len(list.Values))
	for i, value := range list.Values {
		item := path + "[" + strconv.Itoa(i) + "]"
		if value = d.follow(item, value); value != nil {
			schedule = append(schedule, d.duration(item, value, 1, MaxWait))
		}
	}
	return schedule
}
