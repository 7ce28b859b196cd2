package providertest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/slack"
	"github.com/pacer-notify/pacer/internal/push/teams"
	"github.com/pacer-notify/pacer/test/providertest"
)

// named is a server's URL with the name of its certificate, where channels take only names.
func named(server *providertest.HTTP) string {
	return strings.Replace(server.URL, "127.0.0.1", "example.com", 1)
}

// slackScripts are what Slack documents of incoming webhooks.
var slackScripts = []script{
	{row: "2xx", reply: with(200, "ok"), means: "delivered kept yes"},
	{row: "3xx", reply: status(302), means: "permanent returned no target"},
	{row: "4xx", reply: status(418), means: "permanent returned no target"},
	{row: "400 invalid_payload", reply: with(400, "invalid_payload"), means: "permanent returned no target"},
	{row: "4xx invalid_blocks", reply: with(403, "invalid_blocks"), means: "permanent returned no target"},
	{row: "4xx no_text", reply: with(403, "no_text"), means: "permanent returned no target"},
	{row: "4xx too_many_attachments", reply: with(403, "too_many_attachments"), means: "permanent returned no target"},
	{row: "400 user_not_found", reply: with(400, "user_not_found"), means: "target_gone returned no target"},
	{row: "404 channel_not_found", reply: with(404, "channel_not_found"), means: "target_gone returned no target"},
	{row: "410", reply: status(410), means: "target_gone returned no target"},
	{row: "410 channel_is_archived", reply: with(410, "channel_is_archived"), means: "target_gone returned no target"},
	{row: "4xx invalid_token", reply: with(403, "invalid_token"), means: "target_gone returned no target"},
	{row: "4xx no_active_hooks", reply: with(403, "no_active_hooks"), means: "target_gone returned no target"},
	{row: "4xx no_service", reply: with(403, "no_service"), means: "target_gone returned no target"},
	{row: "4xx no_service_id", reply: with(403, "no_service_id"), means: "target_gone returned no target"},
	{row: "4xx no_team", reply: with(403, "no_team"), means: "target_gone returned no target"},
	{row: "403 action_prohibited", reply: with(403, "action_prohibited"), means: "permanent returned no target"},
	{
		row: "4xx posting_to_general_channel_denied", reply: with(403, "posting_to_general_channel_denied"),
		means: "permanent returned no target",
	},
	{row: "4xx team_disabled", reply: with(403, "team_disabled"), means: "permanent returned no target"},
	{row: "408", reply: status(408), means: "ambiguous kept perhaps host"},
	{row: "429", reply: status(429), means: "throttled returned no target"},
	{row: "5xx", reply: status(599), means: "ambiguous kept perhaps host"},
	{row: "500", reply: status(500), means: "transient returned no host"},
	{row: "503", reply: status(503), means: "transient returned no host"},
	{row: "5xx", reply: status(502), means: "ambiguous kept perhaps host"},
	{row: "5xx", reply: status(504), means: "ambiguous kept perhaps host"},
	{row: "500 rollup_error", reply: with(500, "rollup_error"), means: "transient returned no target"},
}

var _ = add("slack", slackBench)

func slackBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartHTTP(t, providertest.HTTPConfig{})
	return &bench{
		scripts: slackScripts, follow: server.Follow, unplug: server.Unplug,
		target:   named(server) + "/services/T00000000/B00000000/XXXXXXXX",
		channels: []channel.Descriptor{slack.Settings{Hosts: []string{"example.com"}}.Channel()},
	}
}

// teamsScripts are what Microsoft documents of workflows, and what people report of them.
var teamsScripts = []script{
	{row: "2xx", reply: status(202), means: "delivered kept yes"},
	{row: "3xx", reply: status(302), means: "permanent returned no target"},
	{row: "4xx", reply: status(418), means: "permanent returned no target"},
	{
		row: "400 TriggerInputSchemaMismatch", reply: microsoft(400, "TriggerInputSchemaMismatch"),
		means: "permanent returned no target",
	},
	{
		row: "400 WorkflowTriggerIsNotEnabled", reply: microsoft(400, "WorkflowTriggerIsNotEnabled"),
		means: "target_gone returned no target",
	},
	{row: "401", reply: status(401), means: "target_gone returned no target"},
	{
		row: "401 DirectApiAuthorizationRequired", reply: microsoft(401, "DirectApiAuthorizationRequired"),
		means: "target_gone returned no target",
	},
	{row: "403", reply: status(403), means: "permanent returned no target"},
	{row: "404", reply: status(404), means: "target_gone returned no target"},
	{row: "404 WorkflowNotFound", reply: microsoft(404, "WorkflowNotFound"), means: "target_gone returned no target"},
	{row: "408", reply: status(408), means: "ambiguous kept perhaps host"},
	{row: "410", reply: status(410), means: "target_gone returned no target"},
	{row: "413", reply: status(413), means: "permanent returned no target"},
	{row: "429", reply: status(429), means: "throttled returned no target"},
	{row: "5xx", reply: status(599), means: "ambiguous kept perhaps host"},
	{row: "500", reply: status(500), means: "transient returned no host"},
	{row: "503", reply: status(503), means: "transient returned no host"},
	{row: "5xx", reply: status(502), means: "ambiguous kept perhaps host"},
	{row: "5xx", reply: status(504), means: "ambiguous kept perhaps host"},
	{row: "502 NoResponse", reply: microsoft(502, "NoResponse"), means: "ambiguous kept perhaps target"},
	{row: "504 GatewayTimeout", reply: microsoft(504, "GatewayTimeout"), means: "ambiguous kept perhaps target"},
}

// microsoft is an error as a workflow reports it.
func microsoft(code int, name string) providertest.Reply {
	return with(code, fmt.Sprintf(`{"error":{"code":%q,"message":"x"}}`, name))
}

var _ = add("teams", teamsBench)

func teamsBench(t *testing.T) *bench {
	t.Helper()
	server := providertest.StartHTTP(t, providertest.HTTPConfig{})
	return &bench{
		scripts: teamsScripts, follow: server.Follow, unplug: server.Unplug,
		target:   named(server) + "/workflows/x/triggers/manual/paths/invoke?sig=x",
		channels: []channel.Descriptor{teams.Settings{Hosts: []string{"example.com"}}.Channel()},
	}
}
