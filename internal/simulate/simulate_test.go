package simulate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/simulate"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/chatroom"
)

func parse(tb testing.TB, text string) *policy.Policy {
	tb.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

const fiveMinutes = `version: 1
categories:
  default:
    limits: [{max: 1, per: 5m}]
    max_defer: 30d
`

var began = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// room is what came in ten days of a chat room.
func room(tb testing.TB) []simulate.Arrival {
	tb.Helper()
	var all []simulate.Arrival
	for _, m := range chatroom.All(tb) {
		all = append(all, simulate.Arrival{At: began.Add(m.After(0)), UserID: m.UserID})
	}
	slices.SortStableFunc(all, func(a, b simulate.Arrival) int { return a.At.Compare(b.At) })
	return all
}

func lines(tb testing.TB, all []simulate.Arrival) io.Reader {
	tb.Helper()
	var text bytes.Buffer
	for i := range all {
		if err := json.NewEncoder(&text).Encode(&all[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return &text
}

// Under one rule each user's notifications go one after the other, as the specification of the limiter says.
func TestChatRoomGoesAsTheLimiterSays(t *testing.T) {
	t.Parallel()
	arrivals := room(t)
	want, last := map[string]time.Time{}, map[string][]throttle.Micros{}
	rules := []throttle.Rule{{Max: 1, Per: 5 * time.Minute}}
	for i, a := range arrivals {
		at, _ := throttle.Next(throttle.MicrosOf(a.At), nil, throttle.Log{Rules: rules, Admitted: last[a.UserID]})
		last[a.UserID] = append(last[a.UserID], at)
		want[fmt.Sprint(i+1)] = at.Time()
	}
	s := simulate.New(parse(t, fiveMinutes))
	s.Ended = func(n *player.Note, _ time.Time) {
		if at := n.Admitted.Time(); at.Sub(want[n.ID]).Abs() > throttle.Horizon {
			t.Errorf("%s goes at %s, want %s", n.ID, at, want[n.ID])
		}
		delete(want, n.ID)
	}
	begun := time.Now()
	if err := simulate.Read(lines(t, arrivals), s.Categories(), false, func(a *simulate.Arrival) error {
		s.Arrive(a)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	report := s.Finish()
	t.Logf("%d arrivals in %s: %+v", len(arrivals), time.Since(begun), report.All)
	if len(want) > 0 || report.All.Delivered != int64(len(arrivals)) {
		t.Errorf("%d did not go; %+v", len(want), report.All)
	}
}
