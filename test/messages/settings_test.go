package messages_test

import "testing"

// senders starts a process with senders in the settings file.
func senders(yaml string) func(*testing.T) string {
	return file(&dispatcherPath, "pacer.yaml", "channels:\n  "+yaml+"\n", "serve", "--config")
}

// settingRows are settings with which no process starts.
func settingRows(_ *fleet) []row {
	return []row{
		{
			name: "an unknown flag", provoke: run(&dispatcherPath, nil, "serve", "--partition=3"),
			want: "dispatcher: there is no flag --partition (did you mean --partitions?); dispatcher serve --help " +
				"lists all flags",
		},
		{
			name: "a flag that is far from any", provoke: run(&dispatcherPath, nil, "serve", "--frobnicate"),
			want: "dispatcher: there is no flag --frobnicate; dispatcher serve --help lists all flags",
		},
		{
			name: "an unknown variable", provoke: run(&dispatcherPath, []string{"PACER_LISTENS=:1"}, "serve"),
			want: "dispatcher: PACER_LISTENS is set in the environment, but there is no such setting (did you mean " +
				"PACER_LISTEN?)",
		},
		{
			name: "a word as number", provoke: run(&dispatcherPath, nil, "serve", "--concurrency=many"),
			want: `dispatcher: --concurrency (PACER_CONCURRENCY) must be a whole number between 1 and 100000, is "many"`,
		},
		{
			name: "no concurrency", provoke: run(&dispatcherPath, nil, "serve", "--concurrency=0"),
			want: "dispatcher: --concurrency (PACER_CONCURRENCY) must be between 1 and 100000, is 0",
		},
		{
			name: "no partitions", provoke: run(&dispatcherPath, nil, "serve", "--partitions=0"),
			want: "dispatcher: --partitions (PACER_PARTITIONS) must be between 1 and 1024, is 0",
		},
		{
			name: "a word as duration", provoke: run(&dispatcherPath, nil, "serve", "--drain-timeout=soon"),
			want: "dispatcher: --drain-timeout (PACER_DRAIN_TIMEOUT) must be a duration such as 20s, 15m or 720h, is " +
				`"soon"`,
		},
		{
			name: "a duration in days", provoke: run(&dispatcherPath, nil, "serve", "--retention=30d"),
			want: `dispatcher: --retention (PACER_RETENTION) must be a duration such as 20s, 15m or 720h, is "30d"`,
		},
		{
			name: "a number that is too large", provoke: run(&dispatcherPath, nil, "serve", "--bulk-rate=20000"),
			want: "dispatcher: --bulk-rate (PACER_BULK_RATE) must be between 1 and 10000, is 20000",
		},
		{
			name: "a number without a value", provoke: run(&dispatcherPath, nil, "serve", "--partitions"),
			want: "dispatcher: --partitions (PACER_PARTITIONS) needs a value: a whole number between 1 and 1024",
		},
		{
			name: "a text without a value", provoke: run(&dispatcherPath, nil, "serve", "--listen"),
			want: "dispatcher: --listen (PACER_LISTEN) needs a value: Address of the HTTP API. Default: 127.0.0.1:<any>",
		},
		{
			name: "a word as number in the environment", provoke: run(&dispatcherPath, []string{"PACER_CONCURRENCY=x"}),
			want: "dispatcher: PACER_CONCURRENCY must be a whole number between 1 and 100000",
		},
		{
			name:    "a duration without unit in the environment",
			provoke: run(&dispatcherPath, []string{"PACER_DRAIN_TIMEOUT=5"}),
			want:    "dispatcher: PACER_DRAIN_TIMEOUT must be a duration such as 20s, 15m or 720h",
		},
		{
			name:    "a word as number in the file",
			provoke: file(&dispatcherPath, "pacer.yaml", "partitions: many\n", "serve", "--config"),
			want:    "dispatcher: DIR/pacer.yaml:1:13: partitions must be a whole number between 1 and 1024",
		},
		{
			name: "an unknown flag of no command", provoke: run(&dispatcherPath, nil, "--concurency=3"),
			want: "dispatcher: there is no flag --concurency (did you mean --concurrency?); dispatcher serve --help " +
				"lists all flags",
		},
		{
			name: "a port that is none", provoke: run(&dispatcherPath, nil, "serve", "--listen=127.0.0.1:99999"),
			want: "dispatcher: --listen (PACER_LISTEN) must end in a port between 0 and 65535, is " +
				`"127.0.0.1:99999"`,
		},
		{
			name: "a level that is none", provoke: run(&dispatcherPath, nil, "serve", "--log-level=loud"),
			want: `dispatcher: --log-level (PACER_LOG_LEVEL) must be debug, info, warn or error, is "loud"`,
		},
		{
			name: "a format that is none", provoke: run(&dispatcherPath, nil, "serve", "--log-format=xml"),
			want: `dispatcher: --log-format (PACER_LOG_FORMAT) must be text or json, is "xml"`,
		},
		{
			name: "an unknown role", provoke: run(&dispatcherPath, nil, "serve", "--roles=api,wroker"),
			want: `dispatcher: --roles (PACER_ROLES) must be one or more of api, worker and ops, not "wroker" ` +
				`(did ` +
				`you mean worker?)`,
		},
		{
			name: "no role", provoke: run(&dispatcherPath, nil, "serve", "--roles="),
			want: "dispatcher: --roles (PACER_ROLES) must name at least one of api, worker and ops",
		},
		{
			name:    "a Redis URL of another kind",
			provoke: run(&dispatcherPath, nil, "serve", "--redis-url=http://localhost"),
			want: "dispatcher: --redis-url (REDIS_URL) must begin with redis://, rediss://, unix://, " +
				"redis+cluster:// " +
				"or redis+sentinel://",
		},
		{
			name:    "a Redis URL without master",
			provoke: run(&dispatcherPath, nil, "serve", "--redis-url=redis+sentinel://h1:1"),
			want: "dispatcher: --redis-url (REDIS_URL) must name the master after the hosts, as in " +
				"redis+sentinel://h1:26379,h2:26379/mymaster",
		},
		{
			name:    "a database URL of another kind",
			provoke: run(&dispatcherPath, nil, "serve", "--database-url=mysql://localhost/x"),
			want: "dispatcher: --database-url (DATABASE_URL) must be of the form " +
				"postgres://user:password@host:port/database",
		},
		{
			name: "an address without port", provoke: run(&dispatcherPath, nil, "serve", "--listen=localhost"),
			want: `dispatcher: --listen (PACER_LISTEN) must be an address such as 127.0.0.1:<any>, is "localhost"`,
		},
		{
			name: "an API for all without tokens", provoke: run(&dispatcherPath, nil, "serve", "--listen=0.0.0.0:0"),
			want: "dispatcher: --listen (PACER_LISTEN) is 0.0.0.0:0, which other machines can reach, and needs " +
				"--api-tokens (PACER_API_TOKENS) to be set; without tokens the API only starts on a loopback address " +
				"such as 127.0.0.1:<any>",
		},
		{
			name: "a network that is none", provoke: run(&dispatcherPath, nil, "serve", "--webhook-allow=lan"),
			want: `dispatcher: --webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks such as 10.0.0.0/8 or ` +
				`fd00::/8, not "lan"`,
		},
		{
			name: "an address as network", provoke: run(&dispatcherPath, nil, "serve", "--webhook-allow=10.1.2.3"),
			want: "dispatcher: --webhook-allow (PACER_WEBHOOK_ALLOW) must hold networks; for a single address write " +
				"10.1.2.3/32",
		},
		{
			name: "a secret without prefix", provoke: run(&dispatcherPath, nil, "serve", "--webhook-secret=hunter2"),
			want: "dispatcher: --webhook-secret (PACER_WEBHOOK_SECRET) must be whsec_ and 24 to 64 random bytes in " +
				"base64",
		},
		{
			name:    "a settings file that is not there",
			provoke: run(&dispatcherPath, nil, "serve", "--config=/nowhere.yaml"),
			want:    "dispatcher: --config (PACER_CONFIG) can't be read: open /nowhere.yaml: no such file or directory",
		},
		{
			name:    "an unknown setting in the file",
			provoke: file(&dispatcherPath, "pacer.yaml", "polcy: x\n", "serve", "--config"),
			want:    `dispatcher: DIR/pacer.yaml:1:1: unknown setting "polcy" (did you mean policy?)`,
		},
		{
			name:    "a setting twice in the file",
			provoke: file(&dispatcherPath, "pacer.yaml", "listen: \":1\"\nlisten: \":2\"\n", "serve", "--config"),
			want:    "dispatcher: DIR/pacer.yaml:2:1: listen is already set on line 1",
		},
		{
			name:    "a list as settings file",
			provoke: file(&dispatcherPath, "pacer.yaml", "- listen\n", "serve", "--config"),
			want:    "dispatcher: DIR/pacer.yaml:1:1: a settings file must hold lines such as partitions: 16",
		},
		{
			name: "a sender of no kind", provoke: senders("fmc:shop: {credentials: x}"),
			want: `dispatcher: DIR/pacer.yaml:2:3: "fmc" is not a kind of channel (did you mean fcm?); use one of <any>`,
		},
		{
			name: "a sender without a name that can be used", provoke: senders("fcm:Shop: {credentials: x}"),
			want: `dispatcher: DIR/pacer.yaml:2:3: "fcm:Shop" must have a name of 1 to 32 lower-case letters, digits and ` +
				`hyphens after the colon, such as fcm:shop`,
		},
		{
			name: "a sender of a kind without settings", provoke: senders("log:x: {}"),
			want: "dispatcher: DIR/pacer.yaml:2:3: the channel log has no settings, so it can't have named senders",
		},
		{
			name: "a sender twice", provoke: senders("fcm:shop: {credentials: x}\n  'fcm:shop': {credentials: y}"),
			want: "dispatcher: DIR/pacer.yaml:3:3: fcm:shop is set twice, with 1 settings before",
		},
		{
			name: "a sender without credentials", provoke: senders("fcm:shop: {project: x}"),
			want: "dispatcher: channels.fcm:shop.project needs channels.fcm:shop.credentials to be set too\n" +
				"channels.fcm:shop lacks settings that every fcm channel needs: docs/channels.md lists them",
		},
		{
			name: "a caller limit that is none", provoke: run(&dispatcherPath, nil, "serve", "--api-limits=often"),
			want: `dispatcher: --api-limits (PACER_API_LIMITS) must be of the form 100/1s, is "often"`,
		},
		{
			name:    "a negative time to disabling",
			provoke: run(&dispatcherPath, nil, "serve", "--webhook-disable-after=-1h"),
			want:    "dispatcher: --webhook-disable-after (PACER_WEBHOOK_DISABLE_AFTER) must not be negative, is -1h0m0s",
		},
		{
			name: "events to no URL", provoke: run(&dispatcherPath, nil, "serve", "--events-endpoints=x"),
			want: "dispatcher: --events-endpoints (PACER_EVENTS_ENDPOINTS) must be http or https URLs without a user; " +
				"number 1 is not",
		},
		{
			name: "a secret for events that is none", provoke: run(&dispatcherPath, nil, "serve", "--events-secret=x"),
			want: "dispatcher: --events-secret (PACER_EVENTS_SECRET) must be whsec_ and 24 to 64 random bytes in base64",
		},
		{
			name: "a retention that is too short", provoke: run(&dispatcherPath, nil, "serve", "--retention=1s"),
			want: "dispatcher: --retention (PACER_RETENTION) must be at least 1h, is 1s",
		},
	}
}
