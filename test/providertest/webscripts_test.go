package providertest_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/ntfy"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/push/webpush/webpushtest"
	"github.com/pacer-notify/pacer/test/providertest"
)

// webhookScripts are what receivers of webhooks respond with: Standard Webhooks, and RFC 9110.
var webhookScripts = []script{
	{row: "2xx", reply: status(204), means: "delivered kept yes"},
	{row: "3xx", reply: status(307), means: "transient returned no target"},
	{row: "302", reply: status(302), means: "ambiguous kept perhaps target"},
	{row: "303", reply: status(303), means: "ambiguous kept perhaps target"},
	{row: "4xx", reply: status(418), means: "transient returned no target"},
	{row: "408", reply: status(408), means: "ambiguous kept perhaps host"},
	{row: "410", reply: status(410), means: "target_gone returned no target"},
	{row: "425", reply: status(425), means: "transient returned no target"},
	{row: "429", reply: status(429), means: "throttled returned no host"},
	{row: "5xx", reply: status(599), means: "ambiguous kept perhaps host"},
	{row: "500", reply: status(500), means: "transient returned no host"},
	{row: "503", reply: status(503), means: "transient returned no host"},
	{row: "5xx", reply: status(502), means: "ambiguous kept perhaps host"},
	{row: "5xx", reply: status(504), means: "ambiguous kept perhaps host"},
}

var _ = add("webhook", webhookBench)

func webhookBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartHTTP(t, providertest.HTTPConfig{Plain: true})
	return &bench{
		scripts: webhookScripts, follow: server.Follow, unplug: server.Unplug, target: server.URL + "/hook",
		channels: []channel.Descriptor{webhook.Settings{}.Channel()},
	}
}

// ntfyScripts are what ntfy servers respond with.
var ntfyScripts = []script{
	{row: "2xx", reply: status(204), means: "delivered kept yes"},
	{row: "3xx", reply: status(302), means: "permanent returned no target"},
	{row: "4xx", reply: status(418), means: "permanent returned no target"},
	{row: "401, from `--ntfy-server`", reply: status(401), means: "credentials_refused returned no everybody"},
	{row: "403", reply: with(403, `{"code":40301,"http":403,"error":"forbidden"}`), means: "permanent returned no target"},
	{row: "404", reply: status(404), means: "permanent returned no target"},
	{row: "408", reply: status(408), means: "ambiguous kept perhaps host"},
	{row: "413", reply: status(413), means: "permanent returned no target"},
	{row: "425", reply: status(425), means: "transient returned no target"},
	{row: "429", reply: with(429, `{"code":42901,"http":429,"error":"limit reached"}`), means: "throttled returned no host"},
	{row: "5xx", reply: status(599), means: "ambiguous kept perhaps host"},
	{row: "500", reply: status(500), means: "transient returned no host"},
	{row: "503", reply: status(503), means: "transient returned no host"},
	{row: "5xx", reply: status(502), means: "ambiguous kept perhaps host"},
	{row: "5xx", reply: status(504), means: "ambiguous kept perhaps host"},
	{row: "507", reply: with(507, `{"code":50701,"http":507,"error":"no subscriber"}`), means: "transient returned no target"},
}

var _ = add("ntfy", ntfyBench)

func ntfyBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartHTTP(t, providertest.HTTPConfig{})
	return &bench{
		scripts: ntfyScripts, follow: server.Follow, unplug: server.Unplug, target: "alerts",
		channels: []channel.Descriptor{ntfy.Settings{Server: server.URL, Token: "tk_0123456789"}.Channel()},
	}
}

// The words by which push services say that a subscription was made with another key.
const (
	mozillas = `{"code":401,"errno":109,"message":"VAPID public key mismatch"}`
	googles  = "the key in the authorization header does not correspond to the sender ID used to subscribe this user."
)

// webpushScripts are what push services respond with: RFC 8030, RFC 8292, and those of Mozilla, Google, Apple and
// Microsoft.
var webpushScripts = []script{
	{row: "2xx", reply: status(201), means: "delivered kept yes"},
	{row: "3xx", reply: status(302), means: "permanent returned no target"},
	{row: "4xx", reply: status(418), means: "permanent returned no target"},
	{row: "400, the subscription has another key", reply: with(400, `{"reason":"VapidPkHashMismatch"}`), means: "target_gone returned no credential"},
	{row: "401", reply: status(401), means: "credentials_refused returned no credential"},
	{
		row: "401, the subscription has another key", reply: with(401, mozillas),
		means: "target_gone returned no credential",
	},
	{row: "403", reply: status(403), means: "credentials_refused returned no credential"},
	{
		row: "403, the subscription has another key", reply: with(403, googles),
		means: "target_gone returned no credential",
	},
	{row: "404", reply: status(404), means: "target_gone returned no target"},
	{row: "406", reply: status(406), means: "throttled returned no target"},
	{row: "408", reply: status(408), means: "ambiguous kept perhaps host"},
	{row: "410", reply: status(410), means: "target_gone returned no target"},
	{row: "413", reply: status(413), means: "permanent returned no target"},
	{row: "425", reply: status(425), means: "transient returned no target"},
	{row: "429", reply: status(429), means: "throttled returned no host"},
	{row: "5xx", reply: status(599), means: "ambiguous kept perhaps host"},
	{row: "500", reply: status(500), means: "transient returned no host"},
	{row: "503", reply: status(503), means: "transient returned no host"},
	{row: "5xx", reply: status(502), means: "ambiguous kept perhaps host"},
	{row: "5xx", reply: status(504), means: "ambiguous kept perhaps host"},
}

var _ = add("webpush", webpushBench)

func webpushBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartHTTP(t, providertest.HTTPConfig{})
	keys, err := webpush.GenerateKeys()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{
		scripts: webpushScripts, follow: server.Follow, unplug: server.Unplug,
		target: webpushtest.New(t).Subscription(server.URL + "/push/1"),
		channels: []channel.Descriptor{
			webpush.Settings{Key: keys.Private, Subject: "mailto:ops@example.com"}.Channel(),
		},
	}
}
