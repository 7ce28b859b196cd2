// Package chatroom reads the recorded traffic in testdata: who was addressed by name in a chat room, and when.
package chatroom

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/module"
)

// Mention is one event of the recording.
type Mention struct {
	Day    int    `json:"day"`
	AtMS   int64  `json:"at_ms"`
	UserID string `json:"user_id"`
}

// day is how long one is.
const day = 24 * time.Hour

// After is when the event came, after the beginning of a day; each day follows the one before it.
func (m Mention) After(firstDay int) time.Duration {
	return time.Duration(m.Day-firstDay)*day + time.Duration(m.AtMS)*time.Millisecond%day
}

// Busiest returns the recorded days in a row with most events, in the order in which they came, and the first of these
// days.
func Busiest(tb testing.TB, days int) (events []Mention, firstDay int) {
	tb.Helper()
	all := All(tb)
	perDay := map[int]int{}
	for _, m := range all {
		perDay[m.Day]++
	}
	last := slices.MaxFunc(all, func(a, b Mention) int { return cmp.Compare(a.Day, b.Day) }).Day
	most := 0
	for first := 0; first+days-1 <= last; first++ {
		sum := 0
		for d := first; d < first+days; d++ {
			sum += perDay[d]
		}
		if sum > most {
			firstDay, most = first, sum
		}
	}
	events = slices.DeleteFunc(all, func(m Mention) bool { return m.Day < firstDay || m.Day >= firstDay+days })
	slices.SortStableFunc(events, func(a, b Mention) int { return cmp.Compare(a.After(firstDay), b.After(firstDay)) })
	return events, firstDay
}

// All reads the recording.
func All(tb testing.TB) (all []Mention) {
	tb.Helper()
	file, err := os.Open(module.Path(tb, "testdata/irc-mentions.ndjson.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	for lines := bufio.NewScanner(unpacked); lines.Scan(); {
		var m Mention
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			tb.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}
