package providertest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/sms"
	"github.com/pacer-notify/pacer/test/providertest"
)

// smsScripts are what Twilio documents.
var smsScripts = []script{
	{row: "2xx", reply: with(201, `{"status":"queued","error_code":null}`), means: "delivered kept yes"},
	{row: "3xx", reply: status(302), means: "permanent returned no target"},
	{row: "4xx", reply: status(418), means: "permanent returned no target"},
	{row: "401", reply: status(401), means: "credentials_refused returned no everybody"},
	{row: "4xx 20003", reply: twilio(401, 20003), means: "credentials_refused returned no everybody"},
	{row: "4xx 20005", reply: twilio(400, 20005), means: "credentials_refused returned no everybody"},
	{row: "4xx 20404", reply: twilio(404, 20404), means: "credentials_refused returned no everybody"},
	{row: "4xx 21211", reply: twilio(400, 21211), means: "target_gone returned no target"},
	{row: "4xx 21614", reply: twilio(400, 21614), means: "target_gone returned no target"},
	{row: "4xx 21610", reply: twilio(400, 21610), means: "target_gone returned no target"},
	{row: "4xx 21408", reply: twilio(400, 21408), means: "permanent returned no target"},
	{row: "4xx 21608", reply: twilio(400, 21608), means: "permanent returned no target"},
	{row: "4xx 21612", reply: twilio(400, 21612), means: "permanent returned no target"},
	{row: "4xx 21602", reply: twilio(400, 21602), means: "permanent returned no target"},
	{row: "4xx 21617", reply: twilio(400, 21617), means: "permanent returned no target"},
	{row: "4xx 21212", reply: twilio(400, 21212), means: "credentials_refused returned no everybody"},
	{row: "4xx 21603", reply: twilio(400, 21603), means: "credentials_refused returned no everybody"},
	{row: "4xx 21606", reply: twilio(400, 21606), means: "credentials_refused returned no everybody"},
	{row: "4xx 21660", reply: twilio(400, 21660), means: "credentials_refused returned no everybody"},
	{row: "4xx 21701", reply: twilio(400, 21701), means: "credentials_refused returned no everybody"},
	{row: "4xx 21704", reply: twilio(400, 21704), means: "credentials_refused returned no everybody"},
	{row: "408", reply: status(408), means: "ambiguous kept perhaps host"},
	{row: "429", reply: status(429), means: "throttled returned no everybody 1m"},
	{row: "4xx 20429", reply: twilio(429, 20429), means: "throttled returned no everybody 1m"},
	{row: "4xx 21611", reply: twilio(400, 21611), means: "throttled returned no everybody 1m"},
	{row: "4xx 63038", reply: twilio(400, 63038), means: "throttled returned no everybody 1h"},
	{row: "5xx", reply: status(599), means: "ambiguous kept perhaps host"},
	{row: "500", reply: status(500), means: "transient returned no host"},
	{row: "503", reply: status(503), means: "transient returned no host"},
	{row: "5xx", reply: status(502), means: "ambiguous kept perhaps host"},
	{row: "5xx", reply: status(504), means: "ambiguous kept perhaps host"},
	{row: "2xx, with the message already failed", reply: twilioFailed("null"), means: "permanent returned no target"},
	{
		row: "2xx 30001, with the message already failed", reply: twilioFailed("30001"),
		means: "throttled returned no everybody 1m",
	},
	{
		row: "2xx 30002, with the message already failed", reply: twilioFailed("30002"),
		means: "credentials_refused returned no everybody",
	},
	{row: "2xx 30003, with the message already failed", reply: twilioFailed("30003"), means: "transient returned no target"},
	{row: "2xx 30004, with the message already failed", reply: twilioFailed("30004"), means: "permanent returned no target"},
	{
		row: "2xx 30005, with the message already failed", reply: twilioFailed("30005"),
		means: "target_gone returned no target",
	},
	{
		row: "2xx 30006, with the message already failed", reply: twilioFailed("30006"),
		means: "target_gone returned no target",
	},
	{row: "2xx 30007, with the message already failed", reply: twilioFailed("30007"), means: "permanent returned no target"},
	{
		row: "2xx 30008, with the message already failed", reply: twilioFailed("30008"),
		means: "ambiguous kept perhaps target",
	},
	{
		row: "2xx 63038, with the message already failed", reply: twilioFailed("63038"),
		means: "throttled returned no everybody 1h",
	},
}

// twilio is a refusal as Twilio reports it.
func twilio(status, code int) providertest.Reply {
	return with(status, fmt.Sprintf(`{"code":%d,"status":%d,"message":"x"}`, code, status))
}

// twilioFailed is a message that Twilio took, and that failed at once.
func twilioFailed(code string) providertest.Reply {
	return with(201, fmt.Sprintf(`{"status":"failed","error_code":%s}`, code))
}

var _ = add("sms", smsBench)

func smsBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartHTTP(t, providertest.HTTPConfig{})
	return &bench{
		scripts: smsScripts, follow: server.Follow, unplug: server.Unplug, target: "+15005550009",
		channels: []channel.Descriptor{sms.Settings{
			Account: "AC" + strings.Repeat("0", 32), Token: "token", From: "+15005550006", Endpoint: server.URL,
		}.Channel()},
	}
}
