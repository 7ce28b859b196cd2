package messages_test

// commandRows are what the commands of the dispatcher say.
func commandRows(_ *fleet) []row {
	return []row{
		{
			name: "an unknown command", provoke: run(&dispatcherPath, nil, "srve"),
			want: "dispatcher: dispatcher has no command srve (did you mean serve?); there are cancel, channels, <any>",
		},
		{
			name:    "a policy file that is not there",
			provoke: run(&dispatcherPath, nil, "policy", "check", "/nowhere.yaml"),
			want: "the policy file /nowhere.yaml can't be read (--policy, PACER_POLICY): no such file or directory\n" +
				"dispatcher: the policy file has faults",
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
			name: "a private key that is none", provoke: run(&dispatcherPath, nil, "vapid", "public", "--webpush-key=x"),
			want: "dispatcher: --webpush-key: the private key must be 32 bytes in base64url; dispatcher vapid generate makes one",
		},
		{
			name: "a private key over an older one", provoke: file(&dispatcherPath, "vapid.key", "x", "vapid", "generate", "--out"),
			want: "dispatcher: DIR/vapid.key exists and stays as it is, since a new key ends all subscriptions: name another file",
		},
		{
			name: "migrate without a database", provoke: run(&dispatcherPath, nil, "migrate", "up"),
			want: "dispatcher: missing flags: --database-url=URL",
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
				"refused; is it running, with the ops role, and is --ops-listen its address?",
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
	}
}
