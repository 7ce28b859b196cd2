package agenda_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

// What a process without metrics accepts is reported to one process that sweeps. Repeats are not, nor what other
// processes accept. In a guarded store the other store counts.
func TestASweepReportsWhatAProcessWithoutMetricsAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		guarded bool
		want    []dispatch.Accepted
	}{
		"Plain":   {want: []dispatch.Accepted{{Category: "chat", Count: 2}, {Category: "news", Count: 1}}},
		"Guarded": {guarded: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Client(t)
			open := func(apart bool) *agenda.Agendas {
				store, err := agenda.New(client, agenda.Config{
					Partitions: 1, Settings: func(string, string) agenda.Settings { return agenda.Settings{} },
					Guarded: c.guarded, Apart: apart,
				})
				if err != nil {
					t.Fatal(err)
				}
				return store
			}
			producer, worker := open(true), open(false)
			if c.guarded {
				if err := client.Set(t.Context(), keyspace.Prefix(0)+"epoch", "1", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			put := func(store *agenda.Agendas, id, category string) {
				e := agenda.Entry{
					ID: id, UserID: "ada", Category: category, Priority: notification.PriorityNormal, CollapseKey: "k",
				}
				if _, err := store.Accept(t.Context(), 0, []agenda.Entry{e}); err != nil {
					t.Fatal(err)
				}
			}
			put(producer, "a", "chat")
			put(producer, "b", "chat")
			put(producer, "a", "chat")
			put(producer, "c", "news")
			put(worker, "d", "news")
			for _, want := range [][]dispatch.Accepted{c.want, nil} {
				swept, err := worker.Sweep(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				slices.SortFunc(swept.Accepted, func(a, b dispatch.Accepted) int {
					return cmp.Compare(a.Category, b.Category)
				})
				if diff := gocmp.Diff(want, swept.Accepted); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			}
		})
	}
}
