package night_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/pacer-notify/pacer/test/providertest"
)

// crowd has ten users and two get a notification, so that a breaker opens where they fail.
func (d *deployment) crowd(more string) {
	d.Helper()
	for i := range 12 {
		d.postFor(fmt.Sprint("user-", i), fmt.Sprint("c", i), more)
	}
}

// nobody is the URL of a server that is gone.
func (d *deployment) nobody() string {
	d.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}

// hangs responds to nothing.
var hangs = providertest.Rule{Reply: providertest.Reply{End: providertest.Hangs}}

// ntfy sets up the channel ntfy, with the receiver as its server.
func ntfy(d *deployment) {
	d.env = append(d.env, "PACER_NTFY_SERVER="+d.receiver.URL, "PACER_NTFY_TOKEN=tk_0123456789")
}

// soonAgain has a notification that was the one to try its provider wait for it again within a second: with each such
// attempt it would otherwise be retrying, not held, for twice as long, up to more than a case takes.
const soonAgain = "version: 1\ncategories:\n  default: {}\nretry: {max_attempts: 100, min_backoff: 100ms, max_backoff: 1s}\n"

// providers are the cases in which a provider does not take notifications.
func providers() []*night {
	return []*night{
		{
			title:  "A provider is down",
			policy: soonAgain,
			prepare: func(d *deployment) {
				server := strings.Replace(d.nobody(), "http", "smtp+plain", 1)
				d.env = append(d.env, "PACER_EMAIL_SERVER="+server, "PACER_EMAIL_FROM=pacer@example.com")
			},
			trouble: func(d *deployment) {
				d.crowd(`,"channel":"email","to":"ada@example.com"`)
				d.post("n1", `,"channel":"email","to":"ada@example.com"`)
			},
			alerts: []string{"PacerFailing", "PacerProviderAway"},
			do:     "Go to [PacerProviderAway](#pacerprovideraway).",
		},
		{
			title:  "One host is down",
			policy: soonAgain,
			trouble: func(d *deployment) {
				other := startReceiver(d.T)
				other.Follow(with(http.StatusServiceUnavailable, "maintenance"))
				d.crowd(fmt.Sprintf(`,"to":%q`, other.URL))
				d.post("n1", fmt.Sprintf(`,"to":%q`, other.URL))
				d.delivered("n2", "")
			},
			alerts: []string{"PacerFailing"},
			do:     "Tell the owner of the host. Its notifications go out by themselves when it responds.",
		},
		{
			title:  "A provider responds with an error",
			policy: "version: 1\ncategories:\n  default: {}\nretry: {min_backoff: 5m}\n",
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusServiceUnavailable, "try later"))
				d.post("n1", "")
				d.is("n1", "retrying")
			},
			alerts: []string{"PacerFailing"},
			do:     "Nothing: pacer tries again by itself.",
		},
		{
			title:   "The credentials are refused",
			prepare: ntfy,
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusUnauthorized, "token revoked"))
				d.postFor("ben", "n0", `,"channel":"ntfy","to":"topic"`)
				d.is("n0", "retrying")
				d.post("n1", `,"channel":"ntfy","to":"topic"`)
			},
			alerts: []string{"PacerCredentialsRefused", "PacerFailing"},
			do:     "Go to [PacerCredentialsRefused](#pacercredentialsrefused).",
		},
		{
			title: "A provider asks to slow down",
			trouble: func(d *deployment) {
				d.receiver.Follow(providertest.Rule{Reply: providertest.Reply{
					Status: http.StatusTooManyRequests, Body: "quota used up",
					Header: map[string]string{"Retry-After": "600"},
				}})
				d.post("n1", "")
			},
			alerts: []string{"PacerFailing"},
			do:     "Nothing, or ask the provider for a higher quota.",
		},
		{
			title: "The channel's limit is used up", slow: true,
			prepare: func(d *deployment) { d.env = append(d.env, "PACER_WEBHOOK_LIMITS=1/1h") },
			trouble: func(d *deployment) {
				d.postFor("ben", "n0", "")
				d.is("n0", "delivered")
				d.post("n1", "")
			},
			do: "Raise `--CHANNEL-limits`, if the provider allows it.",
		},
		{
			title:   "DNS does not know the host",
			trouble: func(d *deployment) { d.post("n1", `,"to":"http://nowhere.test/hook"`) },
			alerts:  []string{"PacerFailing"},
			do:      "Correct the target, or the DNS of the workers.",
		},
		{
			title: "A provider times out", slow: true, // it takes ten time-outs
			prepare: func(d *deployment) { d.env = append(d.env, "PACER_CONCURRENCY=4") },
			trouble: func(d *deployment) {
				d.receiver.Follow(hangs)
				d.crowd("")
				d.post("n1", "")
			},
			alerts: []string{"PacerFailing", "PacerStalls"},
			do:     "Tell the owner of the host. Its notifications go out by themselves when it responds.",
		},
	}
}
