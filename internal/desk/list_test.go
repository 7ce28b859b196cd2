package desk_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

var (
	now   = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	names = desk.Names{Categories: []string{"chat", "default"}, Channels: []string{"log", "webhook"}}
)

func TestParseFilter(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]notification.Filter{
		"":                                      {Limit: desk.DefaultLimit},
		"user=ada":                              {UserID: "ada", Limit: desk.DefaultLimit},
		"user_id=ada&user=ada&limit=5&cursor=x": {UserID: "ada", Limit: 5, Cursor: "x"},
		"status=failed,expired,failed&since=2h&until=2026-03-04T11:30:00Z": {
			Statuses: []notification.Status{notification.StatusFailed, notification.StatusExpired},
			Since:    now.Add(-2 * time.Hour), Until: now.Add(-30 * time.Minute), Limit: desk.DefaultLimit,
		},
		"category=chat&channel=log&reason=permanent&host=Hooks.Example&text=Order&since=1d": {
			Category: "chat", Channel: "log", Reason: "permanent", Host: "hooks.example", Text: "Order",
			Since: now.Add(-24 * time.Hour), Limit: desk.DefaultLimit,
		},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := desk.ParseFilter(values, names, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A query that cannot be meant is refused with what there is and what is nearest: a misspelt parameter would otherwise
// list what nobody asked for.
func TestParseFilterRefuses(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"usr=ada": "usr: is not a parameter of this call, which takes category, channel, cursor, host, limit, reason, since, status, " +
			"text, until, user, user_id (did you mean user?)",
		"user=ada&user=ben":       "user: is given more than once",
		"user=ada&user_id=ben":    "user_id: differs from user, which is the same parameter",
		"status=faild":            `status: unknown status "faild": use one of cancelled,`,
		"status=faild,sent":       "(did you mean failed?)",
		"category=chatt":          `category: unknown category "chatt": use one of chat, default (did you mean chat?)`,
		"channel=webhok":          `channel: unknown channel "webhok": use one of log, webhook (did you mean webhook?)`,
		"since=yesterday":         `since: must be a time such as 2026-01-02T15:04:05Z, or how long ago, such as 2h; is "yesterday"`,
		"since=1h&until=2h":       "until: must be later than since",
		"limit=0":                 `limit: must be a number from 1 to 1000, is "0"`,
		"limit=1001":              `limit: must be a number from 1 to 1000, is "1001"`,
		"text=a%00b":              "text: must be UTF-8 without control characters",
		"usr=1&status=x&limit=no": "limit: ",
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			_, err = desk.ParseFilter(values, names, now)
			if err == nil || len(notification.FieldErrors(err)) == 0 || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
