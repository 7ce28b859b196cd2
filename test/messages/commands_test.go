package messages_test

import "testing"

// ask runs a command that asks the deployment.
func (d *fleet) ask(args ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		return runIn(t, dispatcherPath, nil, "", append(args, "--ops-listen="+d.process.OpsAddr())...)
	}
}

// commandRows are what the commands of the dispatcher say.
func commandRows(d *fleet) []row {
	return []row{
		{
			name: "an unknown command", provoke: run(&dispatcherPath, nil, "srve"),
			want: "dispatcher: there is no command srve (did you mean serve?); there are bounce, cancel, channels, <any>",
		},
		{
			name:    "a policy file that is not there",
			provoke: run(&dispatcherPath, nil, "policy", "check", "/nowhere.yaml"),
			want:    "dispatcher: the policy file can't be read: open /nowhere.yaml: no such file or directory",
		},
		{
			name: "a policy file with a fault",
			provoke: file(
				&dispatcherPath, "policy.yaml",
				"version: 1\ncategories: {default: {limits: [{max: 0, per: 1s}]}}\n", "policy", "check"),
			want: "DIR/policy.yaml:2:39: categories.default.limits[0].max: must be between 1 and 1000000, is 0\n" +
				"dispatcher: the policy file has faults",
		},
		{
			name:    "a private key that is none",
			provoke: run(&dispatcherPath, nil, "vapid", "public", "--webpush-key=x"),
			want:    "dispatcher: --webpush-key: the private key must be 32 bytes in base64url; dispatcher vapid generate makes one",
		},
		{
			name:    "a private key over an older one",
			provoke: file(&dispatcherPath, "vapid.key", "x", "vapid", "generate", "--out"),
			want:    "dispatcher: DIR/vapid.key exists and was not changed, because a new key invalidates all subscriptions: name another file",
		},
		{
			name: "migrate without a database", provoke: run(&dispatcherPath, nil, "migrate", "up"),
			want: "dispatcher: dispatcher migrate up needs --database-url (DATABASE_URL): Postgres that keeps the " +
				"store: postgres://..., or file:PATH",
		},
		{
			name: "rebuild without a database", provoke: run(&dispatcherPath, nil, "rebuild"),
			want: "dispatcher: only a deployment with REDIS_URL and DATABASE_URL can be rebuilt: set both",
		},
		{
			name: "import without stores", provoke: run(&dispatcherPath, nil, "import"),
			want: "dispatcher: an import goes from Redis to Postgres: set REDIS_URL and DATABASE_URL",
		},
		{
			name:    "explain without anybody",
			provoke: run(&dispatcherPath, nil, "explain", "x", "--ops-listen=127.0.0.1:1"),
			want: "dispatcher: ask the dispatcher at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection " +
				"refused; is it running with the ops role, and is --ops-listen its address?",
		},
		{
			name: "nothing to explain", provoke: run(&dispatcherPath, nil, "explain"),
			want: "dispatcher: dispatcher explain needs <id>: Id of the notification",
		},
		{
			name:    "pause of an unknown kind",
			provoke: run(&dispatcherPath, nil, "pause", "user", "ada", "--ops-listen=127.0.0.1:1"),
			want:    `dispatcher: <kind> must be one of category, channel, partition, is "user"`,
		},
		{
			name: "move to nowhere", provoke: run(&dispatcherPath, nil, "move", "--user=ada"),
			want: "dispatcher: dispatcher move needs --to-channel: The channel to move to; notifications go to " +
				"the user's devices there",
		},
		{
			name: "a test of nothing", provoke: run(&dispatcherPath, nil, "send-test"),
			want: "dispatcher: dispatcher send-test needs --channel: One of the configured channels; and --to: A URL, " +
				"device token, subscription or address",
		},
		{
			name: "policy alone", provoke: run(&dispatcherPath, nil, "policy"),
			want: "dispatcher: dispatcher policy needs a command: one of apply, check, diff, show",
		},
		{
			name: "migrate alone", provoke: run(&dispatcherPath, nil, "migrate"),
			want: "dispatcher: dispatcher migrate needs a command: one of down, status, up",
		},
		{
			name: "a folder as policy file", provoke: run(&dispatcherPath, nil, "policy", "check", "/"),
			want: "dispatcher: the policy file can't be read: read /: is a directory",
		},
		{
			name: "a limit that is no number", provoke: run(&dispatcherPath, nil, "list", "--limit=all"),
			want: `dispatcher: --limit must be a whole number, is "all"`,
		},
		{
			name: "a switch with a word", provoke: run(&dispatcherPath, nil, "list", "--json=maybe"),
			want: `dispatcher: --json must be true or false, is "maybe"`,
		},
		{
			name: "a filter without a value", provoke: run(&dispatcherPath, nil, "list", "--status"),
			want: "dispatcher: --status needs a value: Those with one of these statuses, such as failed,expired",
		},
		{
			name: "an interval without a unit", provoke: run(&dispatcherPath, nil, "top", "--interval=5"),
			want: `dispatcher: --interval must be a duration such as 20s, 15m or 720h, is "5"`,
		},
		{
			name: "cancel of everything", provoke: run(&dispatcherPath, nil, "cancel"),
			want: "dispatcher: ID or a filter is required: give one id, or at least one of --user, --status, " +
				"--category, --channel, --reason, --host, --since, --until and --text",
		},
		{
			name: "explain of nothing known", provoke: d.ask("explain", "nobody-knows"),
			want: `dispatcher: explain nobody-knows: no such notification: "nobody-knows" was never accepted, or ended so long ago that it is no longer kept`,
		},
		{
			name: "cancel of an unknown id", provoke: d.ask("cancel", "nobody-knows", "--yes"),
			want: `dispatcher: not done: no such notification: "nobody-knows" was never accepted, or ended so long ago that it is no longer kept`,
		},
		{
			name: "a list of an unknown status", provoke: d.ask("list", "--status=faild"),
			want: `dispatcher: list notifications: status: unknown status "faild": use one of <any>, sending (did you ` +
				"mean failed?)",
		},
		{
			name: "a job that is none", provoke: d.ask("jobs", "--stop=job-1"),
			want: `dispatcher: not done: there is no job "job-1"; dispatcher jobs and GET /bulk list the latest`,
		},
		{
			name: "pause of an unknown channel", provoke: d.ask("pause", "channel", "webhok", "--yes"),
			want: "dispatcher: not done: there is no channel webhok: it must be one of log, webhook (did you mean " +
				"webhook?)",
		},
		{
			name: "resume of what is not paused", provoke: d.ask("resume", "channel", "log", "--yes"),
			want: "dispatcher: not done: channel log is not paused",
		},
		{
			name: "an action without a confirmation", provoke: d.ask("pause", "channel", "log"),
			want: "dispatcher: not done: confirm with y, or give --yes",
		},
		{
			name: "a history of a year", provoke: d.ask("history", "--since=365d"),
			want: "dispatcher: read the history: since: may be at most 30d ago: older history is not kept",
		},
		{
			name: "a history of an unknown category", provoke: d.ask("history", "--category=chatt"),
			want: `dispatcher: read the history: category: unknown category "chatt": use one of chat, default, security ` +
				"(did you mean chat?)",
		},
	}
}
