package outlook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/stats"
)

// historyBatch is how many partitions are read at a time.
const historyBatch = 500

// History returns what happened in each category and hour, from the hour of since to that of until, by hour and
// category. The scripts count it where they count the totals, so the two agree. Redis keeps it for 31 days. A guarded
// store has none. When a partition can't be reached, the error says so, and what the others counted is returned.
func (a *Agendas) History(ctx context.Context, since, until time.Time) ([]stats.Hour, error) {
	h := historyReading{found: map[hourOfCategory]*stats.Hour{}}
	for hour := since.Unix() / 3600; hour <= until.Unix()/3600; hour++ {
		for batch := range slices.Chunk(a.Prefixes(), historyBatch) {
			h.read(ctx, a.Client, hour, batch)
		}
	}
	all := make([]stats.Hour, 0, len(h.found))
	for _, one := range h.found {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b stats.Hour) int {
		return cmp.Or(a.Hour.Compare(b.Hour), strings.Compare(a.Category, b.Category))
	})
	if h.fault != nil {
		return all, fmt.Errorf("read the history: %w", h.fault)
	}
	return all, nil
}

// hourOfCategory names an hour, by its number since 1970, and a category.
type hourOfCategory struct {
	hour     int64
	category string
}

// historyReading is a history that is being read.
type historyReading struct {
	found map[hourOfCategory]*stats.Hour
	fault error
}

// read adds what partitions counted in an hour.
func (h *historyReading) read(ctx context.Context, client redis.UniversalClient, hour int64, partitions []string) {
	pipe := client.Pipeline()
	replies := make([]*redis.MapStringStringCmd, len(partitions))
	for i, prefix := range partitions {
		replies[i] = pipe.HGetAll(ctx, prefix+"history:"+strconv.FormatInt(hour, 10))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, reply := range replies {
		if reply.Err() != nil {
			h.fault = reply.Err()
			continue
		}
		for field, text := range reply.Val() {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || field == "" {
				h.fault = fmt.Errorf("the field %q is %q", field, text)
				continue
			}
			at := hourOfCategory{hour, field[1:]}
			if h.found[at] == nil {
				h.found[at] = &stats.Hour{Hour: time.Unix(hour*3600, 0).UTC(), Category: at.category}
			}
			addToHour(h.found[at], field[0], n)
		}
	}
}

// addToHour adds to the count of a kind, see note_history in agenda.lua.
func addToHour(h *stats.Hour, kind byte, n int64) {
	switch kind {
	case 'A':
		h.Accepted += n
	case 'W':
		h.Deferred += n
	case 'D':
		h.Delivered += n
	case 'F':
		h.Failed += n
	case 'E':
		h.Expired += n
	case 'C':
		h.Cancelled += n
	case 'R':
		h.Replaced += n
	}
}
