package providertest_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/test/providertest"
)

// tokens is where credentials are exchanged for a token.
var tokens = providertest.Matching("/token$")

// Errors of Google's, and details of them.
const (
	notAToken = `{"error":{"message":"The registration token is not a valid FCM registration token"}}`
	badToken  = `{"@type":"type.googleapis.com/google.rpc.BadRequest",
		"fieldViolations":[{"field":"message.token","description":"Invalid registration token"}]}`
	deviceQuota = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure",
		"violations":[{"subject":"device:x","description":"Device message rate exceeded"}]}`
)

// google is an error as FCM reports it.
var google = providertest.FirebaseError

// fcmScripts are what FCM and Google's token endpoint respond with.
var fcmScripts = []script{
	{row: "2xx", reply: status(200), means: "delivered kept yes"},
	{row: "3xx", reply: status(302), means: "permanent returned no target"},
	{row: "4xx", reply: status(418), means: "permanent returned no target"},
	{row: "400 INVALID_ARGUMENT", reply: google(400, "INVALID_ARGUMENT"), means: "permanent returned no target"},
	{
		row: "400, not a token", reply: with(400, notAToken),
		means: "target_gone returned no credential",
	},
	{
		row: "400 INVALID_ARGUMENT, not a token", reply: google(400, "INVALID_ARGUMENT", badToken),
		means: "target_gone returned no credential",
	},
	{row: "401", reply: status(401), means: "credentials_refused returned no everybody"},
	{
		row: "401 THIRD_PARTY_AUTH_ERROR", reply: google(401, "THIRD_PARTY_AUTH_ERROR"),
		means: "credentials_refused returned no credential",
	},
	{row: "403", reply: status(403), means: "credentials_refused returned no everybody"},
	{
		row: "403 SENDER_ID_MISMATCH", reply: google(403, "SENDER_ID_MISMATCH"),
		means: "target_gone returned no credential",
	},
	{row: "404", reply: status(404), means: "permanent returned no credential"},
	{row: "404 UNREGISTERED", reply: google(404, "UNREGISTERED"), means: "target_gone returned no target"},
	{row: "408", reply: status(408), means: "ambiguous kept perhaps host"},
	{row: "429", reply: status(429), means: "throttled returned no everybody 1m"},
	{row: "429 QUOTA_EXCEEDED", reply: google(429, "QUOTA_EXCEEDED"), means: "throttled returned no everybody 1m"},
	{
		row: "429 QUOTA_EXCEEDED", reply: google(429, "QUOTA_EXCEEDED",
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12.5s"}`),
		means: "throttled returned no everybody 12.5s", unread: true,
	},
	{
		row: "429 QUOTA_EXCEEDED, the device's quota", reply: google(429, "QUOTA_EXCEEDED", deviceQuota),
		means: "throttled returned no target 1m",
	},
	{row: "5xx", reply: status(599), means: "ambiguous kept perhaps host"},
	{row: "500", reply: status(500), means: "transient returned no host"},
	{row: "503", reply: status(503), means: "transient returned no host"},
	{row: "5xx", reply: status(502), means: "ambiguous kept perhaps host"},
	{row: "5xx", reply: status(504), means: "ambiguous kept perhaps host"},
	{row: "500 INTERNAL", reply: google(500, "INTERNAL"), means: "transient returned no host"},
	{row: "503 UNAVAILABLE", reply: google(503, "UNAVAILABLE"), means: "transient returned no host"},
	{
		row: "4xx, from the token endpoint", to: tokens, reply: with(400, `{"error":"invalid_grant"}`),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "408, from the token endpoint", to: tokens, reply: status(408),
		means: "transient returned no host",
	},
	{
		row: "429, from the token endpoint", to: tokens, reply: status(429),
		means: "throttled returned no everybody 1m",
	},
	{
		row: "5xx, from the token endpoint", to: tokens, reply: status(599),
		means: "transient returned no host",
	},
}

var _ = add("fcm", fcmBench)

func fcmBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartHTTP(t, providertest.HTTPConfig{})
	return &bench{
		scripts: fcmScripts, follow: server.Follow, unplug: server.Unplug, target: "device:APA91b-_x",
		base: []providertest.Rule{{
			Target: tokens, Reply: providertest.AccessToken(),
		}},
		delivery: providertest.Matching("/messages:send$"),
		channels: []channel.Descriptor{fcm.Settings{
			Credentials: providertest.ServiceAccount(t, server.URL+"/token"), Endpoint: server.URL,
		}.Channel()},
	}
}
