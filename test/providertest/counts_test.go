package providertest_test

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/devices"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/settings"
)

// mayHave are the rows beyond 408 and 5xx of which nobody knows whether anybody got the notification. surelyNot are the
// rows among these by which the provider itself says that nobody did.
var (
	mayHave = map[notification.Channel][]string{
		"webhook": {"302", "303"}, "sms": {"2xx 30008, the message failed at once"},
	}
	surelyNot = map[notification.Channel][]string{
		"ntfy": {"507"},
		"fcm": {
			"408, when exchanging the credentials for a token", "5xx, when exchanging the credentials for a token",
		},
	}
)

// perhaps reports whether a response may have reached somebody: 408, and 5xx but 500 and 503, which a proxy may have
// said. SMTP has no proxies.
func perhaps(channel notification.Channel, row push.Row) bool {
	name := row.Response()
	switch {
	case slices.Contains(mayHave[channel], name):
		return true
	case slices.Contains(surelyNot[channel], name) || channel == "email" || row.Status == 500 || row.Status == 503:
		return false
	}
	return row.Status == 408 || row.Status == 5 || row.Status > 500
}

// Each response of each provider counts against the user when it reached somebody, or may have, and not otherwise: by
// itself, from all of a user's devices, and from one of them while another gets the notification now, or has it.
//
//nolint:paralleltest // TestEachRowIsProvoked changes the tables
func TestWhatReachedSomebodyCountsOnce(t *testing.T) {
	for _, described := range (settings.Channels{}).All() {
		for _, row := range described.Responses {
			if row.Class == 0 {
				continue
			}
			t.Run(string(described.Name)+"/"+row.Response(), func(t *testing.T) {
				failure := read(described.Responses, row)
				may := perhaps(described.Name, row)
				if failure.Counts() != may {
					t.Errorf("it counts %t, want %t", failure.Counts(), may)
				}
				for name, c := range map[string]struct {
					results []*push.Error
					had     bool // by an earlier attempt
					counts  bool
				}{
					"all devices":                        {results: []*push.Error{failure, failure}, counts: may},
					"one, another gets it":               {results: []*push.Error{nil, failure}, counts: true},
					"one, another has it":                {results: []*push.Error{failure}, had: true, counts: may},
					"some, another has it, one gets it":  {results: []*push.Error{failure, nil, failure}, had: true, counts: true},
					"one, another may have got it":       {results: []*push.Error{failure, {Class: push.Ambiguous, Code: "timeout"}}, counts: true},
					"one, another could not be called":   {results: []*push.Error{failure, {Class: push.Transient, Code: "dns", Unsent: true}}, counts: may},
					"one, another is left alone for now": {results: []*push.Error{failure, {Class: push.Throttled, Code: "breaker_open", Unsent: true}}, counts: may},
				} {
					got := push.Classify(fanOut(t, described.Name, c.results, c.had))
					if counts := got == nil || got.Counts(); counts != c.counts {
						t.Errorf("%s: %v, which counts %t, want %t", name, got, counts, c.counts)
					}
				}
			})
		}
	}
}

// read has a table read the response of one of its rows.
func read(table push.Table, row push.Row) *push.Error {
	r := push.Response{Status: row.Status, Reason: row.Reason}
	if r.Status > 0 && r.Status < 10 {
		r.Status = r.Status*100 + 99
	}
	if row.If != "" {
		r.Conditions = []string{row.If}
	}
	return table.Read(r)
}

// fanOut sends to a device for each result, and to none that has had it before.
func fanOut(t *testing.T, channel notification.Channel, results []*push.Error, had bool) error {
	t.Helper()
	user, attempt := &pocket{}, 1
	for i := range results {
		user.add(channel, strconv.Itoa(i))
	}
	if had {
		user.add(channel, "had")
		user.deliveries = []notification.Delivery{{DeviceID: "had", Ended: true, Outcome: notification.OutcomeDelivered}}
		attempt = 2
	}
	f := devices.NewFanout(channel, responders{results: results}, user, slog.New(slog.DiscardHandler))
	return f.Send(t.Context(), push.Message{
		Notification: &notification.Notification{ID: "n1", UserID: "ada", Channel: channel}, Attempt: attempt,
	})
}

// responders is a sender that has a result for each target.
type responders struct {
	push.Checker
	results []*push.Error
}

func (r responders) Send(_ context.Context, m push.Message) error {
	i, err := strconv.Atoi(m.To)
	if err != nil || r.results[i] == nil {
		return err
	}
	return r.results[i]
}

// pocket is a store with the devices of one user.
type pocket struct {
	devices.Store
	devices    []notification.Device
	deliveries []notification.Delivery
}

func (p *pocket) add(channel notification.Channel, id string) {
	p.devices = append(p.devices, notification.Device{ID: id, Channel: channel, Target: id, Active: true})
}

func (p *pocket) Devices(context.Context, string) ([]notification.Device, error) {
	return p.devices, nil
}

func (p *pocket) Deliveries(context.Context, *notification.Notification) ([]notification.Delivery, error) {
	return p.deliveries, nil
}

func (p *pocket) NoteDelivery(context.Context, *notification.Notification, notification.Delivery) error {
	return nil
}

func (p *pocket) Deactivate(context.Context, *notification.Device, time.Time, string) error {
	return nil
}
