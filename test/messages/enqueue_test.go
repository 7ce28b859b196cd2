package messages_test

import (
	"testing"
)

// enqueue runs the program of that name against a deployment, with standard input.
func enqueue(d *fleet, in string, args ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		return runIn(t, enqueuePath, []string{"PACER_SERVER=http://" + d.process.Addr()}, in, args...)
	}
}

// enqueueRows are what the enqueue command says.
func enqueueRows(d *fleet) []row {
	return []row{
		{
			name: "no user", provoke: enqueue(d, "", "--title=x"),
			want: "enqueue: --user is required, or --file",
		},
		{
			name: "a count of nothing", provoke: enqueue(d, "", "--user=ada", "--count=0"),
			want: "enqueue: --count must be at least 1",
		},
		{
			name: "data that is no JSON", provoke: enqueue(d, "", "--user=ada", "--data={"),
			want: "enqueue: --data must be a JSON object",
		},
		{
			name: "an override without channel", provoke: enqueue(d, "", "--user=ada", "--override={}"),
			want: "enqueue: --override needs --channel, whose format it is in",
		},
		{
			name: "a locale without template", provoke: enqueue(d, "", "--user=ada", "--locale=de"),
			want: "enqueue: --locale needs --template",
		},
		{
			name: "a file that is not there", provoke: enqueue(d, "", "-f", "/nowhere.ndjson"),
			want: "enqueue: --file can't be read: open /nowhere.ndjson: no such file or directory",
		},
		{
			name: "a file and a user", provoke: enqueue(d, "", "-f", "-", "--user=ada"),
			want: "enqueue: --file goes without the flags of a single notification and without --count",
		},
		{
			name: "an unknown flag", provoke: enqueue(d, "", "--usr=ada"),
			want: "enqueue: there is no flag --usr (did you mean --user?); enqueue --help lists all flags",
		},
		{
			name: "a refusal", provoke: enqueue(d, "", "--user=ada", "--channel=log", "--category=chatt"),
			want: "enqueue: refused: category: \"chatt\" is not named in the policy; it names chat, default, " +
				"security (did you mean chat?)\n" +
				"accepted 0, repeated 0, refused 1 in <any>",
		},
		{
			name:    "a refused line",
			provoke: enqueue(d, "{\"user_id\":\"ada\",\"channel\":\"log\"}\n{\"channel\":\"log\"}\n", "-f", "-"),
			want: "line 2: user_id: is required\n" +
				"accepted 1, repeated 0, refused 1 in <any>",
		},
		{
			name: "nobody listens", provoke: run(&enqueuePath, nil, "--server=http://127.0.0.1:1", "--user=ada"),
			want: "enqueue: nothing listens at http://127.0.0.1:1 (dial tcp 127.0.0.1:1: connect: connection " +
				"refused): " +
				"start a dispatcher there, or name where one is with --server (PACER_SERVER)",
		},
	}
}
