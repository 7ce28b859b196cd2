package messages_test

import (
	"net/http"
	"strings"
	"testing"
)

// act makes a request to the ops pages.
func (d *fleet) act(method, path, body string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.process.OpsAddr()+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return reply(t, request)
	}
}

// actionRows are what the ops pages say to wrong orders.
func actionRows(d *fleet) []row {
	return []row{
		{
			name: "no action", provoke: d.act("POST", "/actions", ""),
			want: `the action is missing: the body is empty, send JSON such as {"action":"cancel", …}`,
		},
		{
			name: "an unknown action", provoke: d.act("POST", "/actions", `{"action":"cancle"}`),
			want: `there is no action "cancle": use one of cancel, move, pause, resume, retry (did you mean cancel?)`,
		},
		{
			name: "a misspelt field", provoke: d.act("POST", "/actions", `{"acton":"cancel"}`),
			want: `the action can't be read: unknown field "acton"`,
		},
		{
			name: "an action on nothing", provoke: d.act("POST", "/actions", `{"action":"cancel"}`),
			want: "id: is required; it names the notification",
		},
		{
			name:    "pause of an unknown kind",
			provoke: d.act("POST", "/actions", `{"action":"pause","kind":"chanel","name":"log"}`),
			want: `can't pause a "chanel": it must be a channel, a category or a partition (did you mean ` +
				"channel?)",
		},
		{
			name:    "pause of an unknown category",
			provoke: d.act("POST", "/actions", `{"action":"pause","kind":"category","name":"chatt"}`),
			want:    "there is no category chatt: it must be one of chat, default, security (did you mean chat?)",
		},
		{
			name: "no order", provoke: d.act("POST", "/bulk", ""),
			want: `the order is missing: the body is empty, send JSON such as {"action":"cancel", …}`,
		},
		{
			name:    "an order that can't be",
			provoke: d.act("POST", "/bulk", `{"action":"retry","filter":"status=queued"}`),
			want:    "status: queued can't be changed by retry, which is for failed, expired",
		},
		{
			name: "an unknown job", provoke: d.act("GET", "/bulk/job-1", ""),
			want: `there is no job "job-1"; dispatcher jobs and GET /bulk list the latest`,
		},
		{
			name: "nothing to explain", provoke: d.act("GET", "/explain/nobody", ""),
			want: `no such notification: "nobody" was never accepted, or ended so long ago that it is no longer kept`,
		},
	}
}
