package simulate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	if err := simulate.Read(lines(t, arrivals), s.Categories(), false, func(a *simulate.Arrival) error {
		s.Arrive(a)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	report := s.Finish()
	if len(want) > 0 || report.All.Delivered != int64(len(arrivals)) {
		t.Errorf("%d did not go; %+v", len(want), report.All)
	}
}

// As digests they go in half as many messages, and none waits for longer than the next slot takes to open.
func TestChatRoomGoesAsDigests(t *testing.T) {
	t.Parallel()
	s := simulate.New(parse(t, fiveMinutes+"    digest: {}\n"))
	if err := simulate.Read(lines(t, room(t)), s.Categories(), false, func(a *simulate.Arrival) error {
		s.Arrive(a)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if all := s.Finish().All; all.Delivered != all.Arrivals || all.Messages*100 > all.Arrivals*51 ||
		all.Wait.P95 > 300 || all.Wait.Max > 300 {
		t.Errorf("%+v", all)
	}
}

// A policy against itself shows no difference.
func TestAgainstItselfNothingDiffers(t *testing.T) {
	t.Parallel()
	arrivals, p := room(t)[:5000], parse(t, fiveMinutes)
	report, err := simulate.Compare(func(_ []string, do func(*simulate.Arrival) error) error {
		return simulate.Read(lines(t, arrivals), []string{"default"}, false, do)
	}, p, p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report.All, report.Against.All); diff != "" {
		t.Error(diff)
	}
	nothing := func([]string, func(*simulate.Arrival) error) error { return nil }
	if _, err := simulate.Compare(nothing, p, nil); err == nil {
		t.Error("nothing that came is no reason to believe that a policy is good")
	}
}

// What is no arrival is named by its line, and nothing is played in spite of it.
func TestBadArrivalsAreNamedByTheirLines(t *testing.T) {
	t.Parallel()
	const good = `{"at":"2026-01-01T00:00:02Z","user_id":"ada"}` + "\n"
	for line, want := range map[string]string{
		`{"at":"2026-01-01T00:00:01Z","user_id":"ada"}`:                       "comes before the line above",
		`{"at":"2026-01-01T00:00:03Z"}`:                                       "user_id: is required",
		`{"at":"1999-12-31T00:00:00Z","user_id":"ada"}`:                       "at: must lie in the years 2000 to 2100",
		`{"user_id":"ada"}`:                                                   "at: is required",
		`{"at":"2026-01-01","user_id":"ada"}`:                                 "moments must be written like",
		`{"at":"2026-01-01T00:00:03Z","user_id":5}`:                           "user_id: must be a string, is a number",
		`{"at":"2026-01-01T00:00:03Z","user_id":"ada","zone":"Local"}`:        "is not a time zone",
		`{"at":"2026-01-01T00:00:03Z","user_id":"ada","category":"defaul"}`:   "(did you mean default?)",
		`{"at":"2026-01-01T00:00:03Z","user_id":"ada","zone":"Europe/Viena"}`: "is not a time zone",
		`{"at":"2026-01-01T00:00:03Z","user_id":"ada","outcome":"lost"}`:      "outcome: must be delivered or failed",
		`{"at":"2026-01-01T00:00:03Z","user_id":"ada","priority":"urgent"}`:   "priority: must be critical, high, normal or low",
		`{"at":"2026-01-01T00:00:03Z","user_id":"ada","colour":"red"}`:        `unknown field "colour"`,
		`{} {}`: "has more than one JSON object", `[`: "is no arrival", "\x1f\x8b\x08": "is compressed",
	} {
		err := simulate.Read(strings.NewReader(good+"\n"+line), []string{"default"}, false,
			func(*simulate.Arrival) error { return nil })
		if text := fmt.Sprint(err); !strings.HasPrefix(text, "line 3: ") || !strings.Contains(text, want) {
			t.Errorf("%s: %v, want line 3: … %s", line, err, want)
		}
	}
	n := 0
	if err := simulate.Read(strings.NewReader("\ufeff"+good+`{"at":"2026-01-01T00:00:01Z","user_id":"ben"}`), []string{"default"}, true,
		func(a *simulate.Arrival) error {
			if n++; n == 1 && a.UserID != "ben" {
				t.Errorf("%s comes first", a.UserID)
			}
			return nil
		}); err != nil || n != 2 {
		t.Errorf("%d sorted arrivals were read, %v", n, err)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	report := &simulate.Report{
		All: simulate.Figures{Arrivals: 1000, Wait: simulate.Waits{P95: 61}},
		Categories: map[string]simulate.Figures{
			"chat": {Arrivals: 1000, Deferred: 20, Ended: map[string]int64{"expired max_defer": 2, "expired expires_at": 1}},
		},
	}
	for text, want := range map[string]bool{
		"chat.expired > 0.1%": true, "chat.expired > 0.3%": false, "chat.expired>=3": true, "chat.deferred < 2%": false,
		"wait_p95 > 1m": true, "wait_p95 > 2m": false, "arrivals <= 1000": true,
	} {
		c, err := simulate.ParseCondition(text, []string{"chat"})
		if err != nil {
			t.Fatal(err)
		}
		if found, holds := c.Holds(report); holds != want {
			t.Errorf("%s: %t (%s)", text, holds, found)
		}
	}
	for text, want := range map[string]string{
		"expired": "is no condition", "chat.expird > 1": "(did you mean expired?)",
		"chta.expired > 1": "(did you mean chat?)",
		"wait_p95 > 10":    "with a duration", "expired > 10m": "is no unit of expired",
		"expired > 1.2.3":     "invalid syntax",
		"users_affected > 1%": "compare it with a number",
	} {
		if _, err := simulate.ParseCondition(text, []string{"chat"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestCases(t *testing.T) {
	t.Parallel()
	p := parse(t, `version: 1
windows: {night: {closed: [{days: [mon, tue, wed, thu, fri, sat, sun], from: "22:00", to: "07:00"}]}}
quiet_hours: {window: night, spread: 0s}
categories:
  default: {limits: [{max: 1, per: 1m}], max_defer: 90s}
  calm: {limits: [{max: 5, per: 1m}], max_defer: 1d}
`)
	suite, err := simulate.ReadSuite([]byte(`
policy: policy.yaml
cases:
  - name: one a minute, and the third is too late
    start: 2026-01-02T12:00:00Z
    given:
      - {at: 0s, user_id: ada, times: 3}
      - {id: ben, at: +1s, user_id: ben}
    then:
      - {id: n1, at: 0s}
      - {id: n2, at: +1m}
      - {id: n3, ended: expired, reason: max_defer}
      - {id: ben, at: 1s}
  - name: at night in Tokyo it waits for the morning there
    given:
      - {id: late, at: 2026-01-02T13:30:00Z, user_id: ada, category: calm, zone: Asia/Tokyo}
    then:
      - {id: late, at: 2026-01-02T22:00:00Z}
  - name: what fails
    start: 2026-01-02T12:00:00Z
    given:
      - {at: 0s, user_id: ada, outcome: failed}
    then:
      - {id: n1, at: 0s}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "", "n1 is failed, recorded, at 2026-01-02T12:00:00Z; want delivered"} {
		wrong, err := suite.Cases[i].Run(p)
		if err != nil || strings.Join(wrong, "; ") != want {
			t.Errorf("%s: %q, %v, want %q", suite.Cases[i].Name, wrong, err, want)
		}
	}
	if _, err := (&simulate.Case{Start: "yesterday"}).Run(p); err == nil {
		t.Error("yesterday is no start")
	}
	for text, want := range map[string]string{
		"cases: []":            "it has no cases",
		"cases: [{nam: x}]":    "unknown field",
		"cases: [{name: x}]":   `says nothing under "then"`,
		"cases: [{name: [1]}]": "name",
	} {
		if _, err := simulate.ReadSuite([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// What waits is looked at again when something else may come first: the worker would come then, too.
func TestWhatComesFirstMayGoSooner(t *testing.T) {
	t.Parallel()
	p := parse(t, `version: 1
windows: {night: {closed: [{from: "22:00", to: "07:00"}]}}
quiet_hours: {window: night, spread: 30m}
caps: [{name: push, categories: [chat], channels: [fcm], limits: [{max: 1, per: 1h}]}]
categories: {default: {max_defer: 1d}, chat: {max_defer: 1d, quiet_hours: {then: off}}}
`)
	const well, chat = "[] <nil>", "{user_id: ada, category: chat, "
	const fcm = chat + "channel: fcm, "
	for given, c := range map[string]struct{ then, want string }{
		fcm + "at: 0s}," + fcm + "at: 1s, expires_at: 10m}," + chat + "at: 2s, channel: email}": {
			"{id: n2, ended: expired, at: 10m}, {id: n3, at: 10m}", well,
		},
		fcm + "at: 0s}," + fcm + "at: 1s, priority: high, collapse_key: k}," + chat + "at: 2s, channel: email}," + fcm +
			"at: 3s, priority: low, collapse_key: k}": {"{id: n2, ended: replaced}, {id: n3, at: 3s}, {id: n4, at: 1h}", well},
		"{user_id: ada, at: 0s}, {user_id: ada, at: 1s, priority: high, expires_at: 8h5m}": {"{id: n2, at: 8h4m}", well},
		"{user_id: ada, at: 0s}, {user_id: ada, at: 1h, zone: America/New_York}":           {"{id: n1, at: 1h}, {id: n2, at: 1h}", well},
		"{user_id: ada, at: x}": {"{id: n1}", `at: "x" is neither`},
		"{user_id: ada}":        {"{id: n1}", "at: is required"},
		"{id: a, user_id: ada, at: 0s}, {id: a, user_id: ben, at: 1d}": {"{id: a}", `two have the id "a"`},
		"{user_id: ada, at: 0s}": {"{id: n1, ended: expird}", "ended: must be one of"},
	} {
		suite, err := simulate.ReadSuite([]byte("cases: [{start: 2026-01-02T23:00:00Z, given: [" + given + "], then: [" + c.then + "]}]"))
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := suite.Cases[0].Run(p)
		if got := fmt.Sprint(wrong, err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", given, got, c.want)
		}
	}
}

// Users of whom nothing counts any more are forgotten; what is granted ahead does not begin the count of a second anew.
func TestManyUsers(t *testing.T) {
	t.Parallel()
	s := simulate.New(parse(t, "version: 1\ncategories: {default: {limits: [{max: 1, per: 30ms}]}}\n"))
	const users = 50_000
	arrive := func(at time.Time, user string) {
		a := &simulate.Arrival{At: at, UserID: user}
		_ = a.Check(s.Categories()) // it completes the arrival
		s.Arrive(a)
	}
	for i := range users {
		arrive(began.Add(time.Duration(i)*time.Second), fmt.Sprint(i))
	}
	if n := s.Users(); n > users/2 {
		t.Errorf("%d users are remembered", n)
	}
	for i, user := range []string{"ada", "ada", "ben", "cid", "eve", "fay"} {
		arrive(began.Add(users*time.Second-10*time.Millisecond+time.Duration(i/4)*time.Second/2), user)
	}
	if peak := s.Finish().All.Peak; peak != 4 {
		t.Errorf("%d go in the busiest second, want 4", peak)
	}
}
