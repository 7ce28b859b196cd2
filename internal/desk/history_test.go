package desk_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
)

// past is a store with a history.
type past struct {
	hours []stats.Hour
	fault error
	since time.Time // that was asked for
}

func (p *past) History(_ context.Context, since, _ time.Time) ([]stats.Hour, error) {
	p.since = since
	return slices.Clone(p.hours), p.fault
}

func TestReadHistory(t *testing.T) {
	t.Parallel()
	hours := []stats.Hour{{Hour: now, Category: "chat", Accepted: 1}, {Hour: now, Category: "gone", Accepted: 2}}
	away, names := errors.New("a partition is away"), desk.Names{Categories: []string{"chat", "quiet"}}
	for query, c := range map[string]struct {
		store past
		want  desk.History
		since time.Time
		fault string
	}{
		"": {
			store: past{hours: hours}, since: now.Add(-24 * time.Hour),
			want: desk.History{Since: now.Add(-24 * time.Hour), Hours: hours},
		},
		"category=gone&since=30d": {
			store: past{hours: hours}, since: now.Add(-desk.HistoryKept),
			want: desk.History{Since: now.Add(-desk.HistoryKept), Hours: hours[1:]},
		},
		"category=chat": {
			store: past{hours: hours, fault: away}, since: now.Add(-24 * time.Hour),
			want: desk.History{Since: now.Add(-24 * time.Hour), Hours: hours[:1], Partial: true},
		},
		"category=quiet": { // the policy names it, and nothing happened
			store: past{hours: hours}, since: now.Add(-24 * time.Hour),
			want: desk.History{Since: now.Add(-24 * time.Hour), Hours: []stats.Hour{}},
		},
		"category=chatt": {
			store: past{hours: hours},
			fault: "category: ",
		},
		"since=1h":    {store: past{fault: away}, fault: "away"},
		"since=31d":   {fault: "since: "},
		"since=later": {fault: "since: "},
		"day=1":       {fault: "day: "},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			store := past{hours: append([]stats.Hour(nil), c.store.hours...), fault: c.store.fault}
			got, err := desk.ReadHistory(t.Context(), &store, values, names, now)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("%v, want %q", err, c.fault)
				}
				return
			}
			if err != nil || !store.since.Equal(c.since) {
				t.Fatalf("asked since %s, %v", store.since, err)
			}
			if diff := cmp.Diff(c.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := desk.ReadHistory(t.Context(), &past{}, url.Values{"x": {""}}, desk.Names{}, now); len(notification.FieldErrors(err)) != 1 {
		t.Errorf("%v", err)
	}
}
