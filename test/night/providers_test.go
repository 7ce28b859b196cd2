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
			title: "A provider is away", happens: "The mail server does not take connections.",
			policy: soonAgain,
			prepare: func(d *deployment) {
				server := strings.Replace(d.nobody(), "http", "smtp+plain", 1)
				d.env = append(d.env, "PACER_EMAIL_SERVER="+server, "PACER_EMAIL_FROM=pacer@example.com")
			},
			trouble: func(d *deployment) {
				d.crowd(`,"channel":"email","to":"ada@example.com"`)
				d.post("n1", `,"channel":"email","to":"ada@example.com"`)
			},
			user:    "default: 1 held for the provider; first n1: waits for its provider: the provider is not called (circuit open for DURATION, last error connection_refused); next try at TIME; a new one may go now",
			explain: "waits for its provider: the provider is not called (circuit open for DURATION, last error connection_refused); next try at TIME",
			dashboard: []string{
				"email: the provider is not called (circuit open for DURATION, last error connection_refused).",
			},
			alerts: []string{"PacerFailing", "PacerProviderAway"},
			do:     "Nothing: they go on by themselves when it responds. `dispatcher send-test --channel email --to ADDRESS` tries it by hand.",
		},
		{
			title: "One host is away", happens: "One of the webhooks' hosts responds with 503; all others take theirs.",
			policy: soonAgain,
			trouble: func(d *deployment) {
				other := startReceiver(d.T)
				other.Follow(with(http.StatusServiceUnavailable, "maintenance"))
				d.crowd(fmt.Sprintf(`,"to":%q`, other.URL))
				d.post("n1", fmt.Sprintf(`,"to":%q`, other.URL))
				d.post("n2", "")
				d.is("n2", "delivered")
			},
			user:    "default: 1 held for the provider; first n1: waits for its provider: HOST is not called (circuit open for DURATION, last reply 503); next try at TIME; a new one may go now",
			explain: "waits for its provider: HOST is not called (circuit open for DURATION, last reply 503); next try at TIME",
			dashboard: []string{
				"webhook: HOST is not called (circuit open for DURATION, last reply 503).",
			},
			alerts: []string{"PacerFailing"},
			do:     "Tell the host's owner. What waits goes on by itself.",
		},
		{
			title: "A provider responds with an error", happens: "The webhook responds with 503 to one notification.",
			policy: "version: 1\ncategories:\n  default: {}\nretry: {min_backoff: 5m}\n",
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusServiceUnavailable, "try later"))
				d.post("n1", "")
				d.is("n1", "retrying")
			},
			user:    "default: 1 retrying; first n1: an attempt failed (transient: 503), next attempt at TIME; a new one may go now",
			explain: "an attempt failed (transient: 503), next attempt at TIME; the provider replied: try later",
			dashboard: []string{
				"webhook HOST: calling, the latest call failed; transient: 503",
			},
			alerts: []string{"PacerFailing"},
			do:     "Nothing: it is tried again by itself.",
		},
		{
			title: "The credentials are refused", happens: "The provider of the channel ntfy responds with 401.",
			prepare: ntfy,
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusUnauthorized, "token revoked"))
				d.postFor("ben", "n0", `,"channel":"ntfy","to":"topic"`)
				d.is("n0", "retrying")
				d.post("n1", `,"channel":"ntfy","to":"topic"`)
			},
			user:    "default: 1 held for the provider; first n1: waits for its provider: HOST is not called for another DURATION (it refuses the credentials: 401); next try at TIME; a new one may go now",
			explain: "waits for its provider: HOST is not called for another DURATION (it refuses the credentials: 401); next try at TIME",
			dashboard: []string{
				"ntfy: HOST is not called for another DURATION (it refuses the credentials: 401).",
			},
			alerts: []string{"PacerCredentialsRefused", "PacerFailing"},
			do:     "Correct the credential in the settings, then restart the processes one after the other.",
		},
		{
			title: "A provider asks to slow down", happens: "The webhook responds with 429 and `Retry-After: 600`.",
			trouble: func(d *deployment) {
				d.receiver.Follow(providertest.Rule{Reply: providertest.Reply{
					Status: http.StatusTooManyRequests, Body: "quota used up",
					Header: map[string]string{"Retry-After": "600"},
				}})
				d.post("n1", "")
			},
			user:    "default: 1 retrying; first n1: an attempt failed (throttled: 429), next attempt at TIME; a new one may go now",
			explain: "an attempt failed (throttled: 429), next attempt at TIME; the provider replied: quota used up",
			dashboard: []string{
				"webhook HOST: calling; throttled: 429",
			},
			alerts: []string{"PacerFailing"},
			do:     "Nothing, or ask the provider for a higher quota.",
		},
		{
			title: "A channel's budget is used up", happens: "`--webhook-limits 1/1h` lets one call an hour out over all processes.",
			prepare: func(d *deployment) { d.env = append(d.env, "PACER_WEBHOOK_LIMITS=1/1h") },
			trouble: func(d *deployment) {
				d.postFor("ben", "n0", "")
				d.is("n0", "delivered")
				d.post("n1", "")
			},
			user:    "default: 1 held for the provider; first n1: waits for its provider: the limit of its channel is used up; next try at TIME; a new one may go now",
			explain: "waits for its provider: the limit of its channel is used up; next try at TIME",
			dashboard: []string{
				"COUNT notifications wait for a provider: the limit of a channel or target is used up (--CHANNEL-limits), or a host has as many calls under way as it may have.",
			},
			calm: "the setting wants it so",
			do:   "Raise the channel's limit, if the provider allows it.",
		},
		{
			title: "A host has no address", happens: "DNS knows no host of the webhook's name.",
			trouble: func(d *deployment) { d.post("n1", `,"to":"http://nowhere.invalid/hook"`) },
			user:    "default: 1 retrying; first n1: an attempt failed (transient: dns), next attempt at TIME; a new one may go now",
			explain: "an attempt failed (transient: dns), next attempt at TIME",
			dashboard: []string{
				"webhook nowhere.invalid: calling, the latest call failed; transient: dns",
			},
			alerts: []string{"PacerFailing"},
			do:     "Correct the target, or the DNS of the workers.",
		},
		{
			title: "A provider is slow", slow: true, // it takes ten time-outs
			happens: "A webhook's host takes longer than a call may.",
			prepare: func(d *deployment) { d.env = append(d.env, "PACER_CONCURRENCY=4") },
			trouble: func(d *deployment) {
				d.receiver.Follow(hangs)
				d.crowd("")
				d.post("n1", "")
			},
			user:      "default: 1 held for the provider; first n1: waits for its provider: HOST is not called (circuit open for DURATION, last error timeout); next try at TIME; a new one may go now",
			explain:   "waits for its provider: HOST is not called (circuit open for DURATION, last error timeout); next try at TIME",
			dashboard: []string{"webhook: HOST is not called (circuit open for DURATION, last error timeout)."},
			alerts:    []string{"PacerFailing", "PacerStalls"},
			do:        "Tell the host's owner. What waits goes on by itself.",
		},
	}
}
