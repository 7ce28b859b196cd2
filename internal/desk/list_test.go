package desk_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/test/transcript"
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
		"category=gone": {Category: "gone", Limit: desk.DefaultLimit}, // the policy lost it, and something may wait
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			store := &past{hours: []stats.Hour{{Hour: now, Category: "gone", Accepted: 1}}}
			got, err := desk.ParseFilter(t.Context(), store, values, names, now)
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
	transcript.Play(t, "testdata/filters.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		values, err := url.ParseQuery(lines[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = desk.ParseFilter(t.Context(), &past{}, values, names, now)
		if len(notification.FieldErrors(err)) == 0 {
			t.Fatalf("%s gives %v, want faulty fields", lines[0], err)
		}
		return err.Error()
	})
}
