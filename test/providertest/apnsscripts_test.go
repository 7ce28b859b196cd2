package providertest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/test/providertest"
)

// otherTopic names another topic than the settings do.
const otherTopic = `{"headers":{"apns-topic":"com.example.other"}}`

// apnsScripts are what Apple documents.
var apnsScripts = []script{
	{row: "2xx", reply: status(200), means: "delivered kept yes"},
	{row: "3xx", reply: status(302), means: "permanent returned no target"},
	{row: "4xx", reply: status(418), means: "permanent returned no target"},
	{row: "400 BadCollapseId", reply: apple(400, "BadCollapseId"), means: "permanent returned no target"},
	{row: "400 BadDeviceToken", reply: apple(400, "BadDeviceToken"), means: "target_gone returned no credential"},
	{row: "400 BadExpirationDate", reply: apple(400, "BadExpirationDate"), means: "permanent returned no target"},
	{row: "400 BadMessageId", reply: apple(400, "BadMessageId"), means: "permanent returned no target"},
	{row: "400 BadPriority", reply: apple(400, "BadPriority"), means: "permanent returned no target"},
	{row: "400 BadTopic", reply: apple(400, "BadTopic"), means: "permanent returned no target", override: otherTopic},
	{
		row: "400 BadTopic, the topic is `--apns-topic`", reply: apple(400, "BadTopic"),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "400 DeviceTokenNotForTopic", reply: apple(400, "DeviceTokenNotForTopic"),
		means: "permanent returned no target", override: otherTopic,
	},
	{
		row: "400 DeviceTokenNotForTopic, the topic is `--apns-topic`", reply: apple(400, "DeviceTokenNotForTopic"),
		means: "target_gone returned no credential",
	},
	{row: "400 DuplicateHeaders", reply: apple(400, "DuplicateHeaders"), means: "permanent returned no target"},
	{row: "400 IdleTimeout", reply: apple(400, "IdleTimeout"), means: "transient returned no host"},
	{row: "400 InvalidPushType", reply: apple(400, "InvalidPushType"), means: "permanent returned no target"},
	{row: "400 MissingDeviceToken", reply: apple(400, "MissingDeviceToken"), means: "permanent returned no target"},
	{
		row: "400 MissingTopic", reply: apple(400, "MissingTopic"),
		means: "permanent returned no target", override: otherTopic,
	},
	{
		row: "400 MissingTopic, the topic is `--apns-topic`", reply: apple(400, "MissingTopic"),
		means: "credentials_refused returned no everybody",
	},
	{row: "400 PayloadEmpty", reply: apple(400, "PayloadEmpty"), means: "permanent returned no target"},
	{
		row: "400 TopicDisallowed", reply: apple(400, "TopicDisallowed"),
		means: "permanent returned no target", override: otherTopic,
	},
	{
		row: "400 TopicDisallowed, the topic is `--apns-topic`", reply: apple(400, "TopicDisallowed"),
		means: "credentials_refused returned no everybody",
	},
	{row: "403", reply: status(403), means: "credentials_refused returned no credential"},
	{
		row: "403 BadCertificate", reply: apple(403, "BadCertificate"),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "403 BadCertificateEnvironment", reply: apple(403, "BadCertificateEnvironment"),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "403 BadEnvironmentKeyIdInToken", reply: apple(403, "BadEnvironmentKeyIdInToken"),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "403 ExpiredProviderToken", reply: apple(403, "ExpiredProviderToken"),
		means: "credentials_refused returned no everybody",
	},
	{row: "403 Forbidden", reply: apple(403, "Forbidden"), means: "credentials_refused returned no credential"},
	{
		row: "403 InvalidProviderToken", reply: apple(403, "InvalidProviderToken"),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "403 MissingProviderToken", reply: apple(403, "MissingProviderToken"),
		means: "credentials_refused returned no everybody",
	},
	{
		row: "403 UnrelatedKeyIdInToken", reply: apple(403, "UnrelatedKeyIdInToken"),
		means: "credentials_refused returned no everybody",
	},
	{row: "404 BadPath", reply: apple(404, "BadPath"), means: "permanent returned no target"},
	{row: "405 MethodNotAllowed", reply: apple(405, "MethodNotAllowed"), means: "permanent returned no target"},
	{row: "410", reply: with(410, `{"timestamp":1790000000000}`), means: "target_gone returned no target"},
	{row: "410 ExpiredToken", reply: apple(410, "ExpiredToken"), means: "target_gone returned no target"},
	{row: "410 Unregistered", reply: apple(410, "Unregistered"), means: "target_gone returned no target"},
	{row: "413 PayloadTooLarge", reply: apple(413, "PayloadTooLarge"), means: "permanent returned no target"},
	{row: "429", reply: status(429), means: "throttled returned no target"},
	{
		row: "429 TooManyProviderTokenUpdates", reply: apple(429, "TooManyProviderTokenUpdates"),
		means: "throttled returned no everybody",
	},
	{row: "429 TooManyRequests", reply: apple(429, "TooManyRequests"), means: "throttled returned no target"},
	{row: "5xx", reply: status(599), means: "ambiguous kept perhaps host"},
	{row: "500", reply: status(500), means: "transient returned no host"},
	{row: "503", reply: status(503), means: "transient returned no host"},
	{row: "5xx", reply: status(502), means: "ambiguous kept perhaps host"},
	{row: "5xx", reply: status(504), means: "ambiguous kept perhaps host"},
	{row: "408", reply: status(408), means: "ambiguous kept perhaps host"},
	{row: "500 InternalServerError", reply: apple(500, "InternalServerError"), means: "transient returned no host"},
	{row: "503 ServiceUnavailable", reply: apple(503, "ServiceUnavailable"), means: "transient returned no host"},
	{row: "503 Shutdown", reply: apple(503, "Shutdown"), means: "transient returned no host"},
}

// apple is a refusal as the service reports it.
func apple(code int, reason string) providertest.Reply {
	return with(code, fmt.Sprintf(`{"reason":%q}`, reason))
}

var _ = add("apns", apnsBench)

func apnsBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartHTTP(t, providertest.HTTPConfig{})
	return &bench{
		scripts: apnsScripts, follow: server.Follow, unplug: server.Unplug, target: strings.Repeat("deadbeef", 8),
		channels: []channel.Descriptor{apns.Settings{
			Key: providertest.SigningKey(t), KeyID: "ABC1234567", TeamID: "TEAM567890", Topic: "com.example.app",
			Endpoint: server.URL,
		}.Channel()},
	}
}
