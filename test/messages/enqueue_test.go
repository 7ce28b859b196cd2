package messages_test

import (
	"io"
	"net/http"
	"net/http/httptest"
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
			want: "enqueue: --count must be at least 1, is 0",
		},
		{
			name: "data that is no JSON", provoke: enqueue(d, "", "--user=ada", "--data={"),
			want: `enqueue: --data must be a JSON object, such as {"order":17}, is "{"`,
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
			want: "enqueue: --file can't be combined with the flags of a single notification or with --count",
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
			name: "a user that is no UTF-8", provoke: enqueue(d, "", "--user", "M\xfcller"),
			want: "enqueue: --user must be valid UTF-8",
		},
		{
			name: "a server that is another program's",
			provoke: func(t *testing.T) string {
				t.Helper()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, "{}") // the program reads it
				}))
				defer server.Close()
				return run(&enqueuePath, nil, "--server="+server.URL, "--user=ada")(t)
			},
			want: "enqueue: pacer at http://127.0.0.1:<any> can't be reached: its response is not pacer's: it " +
				"tells of 0 notifications, sent were 1",
		},
		{
			name: "a count in words", provoke: enqueue(d, "", "--user=ada", "--count=many"),
			want: `enqueue: --count must be a whole number, is "many"`,
		},
		{
			name: "a user without a name", provoke: enqueue(d, "", "--user"),
			want: "enqueue: --user needs a value: User to notify",
		},
		{
			name: "a folder as file", provoke: enqueue(d, "", "-f", "/"),
			want: "enqueue: --file can't be read: / is a directory",
		},
		{
			name: "a text without a flag", provoke: enqueue(d, "", "hello"),
			want: "enqueue: enqueue takes no argument hello",
		},
		{
			name:    "a template where there is none",
			provoke: enqueue(d, "", "--user=ada", "--channel=log", "--template=bye"),
			want:    "enqueue: refused: template.name: <any>\naccepted 0, repeated 0, refused 1 in <any>",
		},
		{
			name: "the address of the ops pages",
			provoke: func(t *testing.T) string {
				t.Helper()
				return run(&enqueuePath, nil, "--server=http://"+d.process.OpsAddr(), "--user=ada", "--channel=log")(t)
			},
			want: "enqueue: refused by http://127.0.0.1:<any>: 404 Not Found: this is not pacer's API; name its address " +
				"with --server (PACER_SERVER)",
		},
		{
			name: "a token file that is not there", provoke: enqueue(d, "", "--user=ada", "--token=file:/nowhere"),
			want: "enqueue: --token (PACER_TOKEN) can't be read: open /nowhere: no such file or directory",
		},
		{
			name: "a time in words", provoke: enqueue(d, "", "--user=ada", "--channel=log", "--send-at=soon"),
			want: `enqueue: refused: send_at: must be an RFC 3339 time, such as 2026-01-02T15:04:05Z, is "soon"` +
				"\naccepted 0, repeated 0, refused 1 in <any>",
		},
		{
			name: "nobody listens", provoke: run(&enqueuePath, nil, "--server=http://127.0.0.1:1", "--user=ada"),
			want: "enqueue: nothing is listening at http://127.0.0.1:1 (dial tcp 127.0.0.1:1: connect: connection refused): " +
				"start a dispatcher there, or set --server (PACER_SERVER) to the address of one",
		},
	}
}
