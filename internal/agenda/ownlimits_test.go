package agenda_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// What was granted at once to a user with limits of his own, of which whoever accepted it did not know, is given back
// and asked for with these. It does not go round for ever.
func TestOwnLimitsAreAskedFor(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	store := func(personal bool) *agenda.Agendas {
		settings := agenda.Settings{MaxDefer: 24 * time.Hour}
		s, err := agenda.New(client, agenda.Config{
			Partitions: 1, Categories: func() []string { return []string{"chat"} },
			Personal: func(string) bool { return personal },
			Settings: func(userID, _ string) agenda.Settings {
				if userID != "" && personal {
					settings.Plan.Rules = []throttle.Rule{{Max: 1, Per: time.Hour}}
				}
				return settings
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	knows, doesNot := store(true), store(false)
	for _, id := range []string{"n1", "n2"} {
		entry := agenda.Entry{ID: id, UserID: "ada", Category: "chat", Priority: notification.PriorityNormal}
		if _, err := doesNot.Accept(t.Context(), 0, []agenda.Entry{entry}); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(r dispatch.TakeRequest) dispatch.TakeResult {
		t.Helper()
		reply, err := knows.Take(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	if reply := serve(dispatch.TakeRequest{ID: "w.1", Capacity: 8, Pull: 8}); len(reply.Served)+len(reply.Pulled) > 0 {
		t.Fatalf("granted without own limits: %+v", reply)
	}
	again := serve(dispatch.TakeRequest{ID: "w.2", Capacity: 8, Pull: 8})
	if len(again.Served) > 0 || len(again.Pulled) != 1 {
		t.Fatalf("then it is not asked for: %+v", again)
	}
	taken := serve(dispatch.TakeRequest{ID: "w.3", Capacity: 8, Wakeups: again.Pulled}).Results[0]
	if len(taken.Grants) != 1 || taken.Grants[0].Notification.ID != "n1" {
		t.Errorf("under own limits of one an hour: %+v", taken)
	}
}

// Users of one batch may have limits of their own: each deferral is told with the rule of its own user.
func TestDeferralsOfABatchNameEachUsersRule(t *testing.T) {
	t.Parallel()
	told := map[string]int{}
	store, err := agenda.New(redistest.Client(t), agenda.Config{
		Partitions: 1, Categories: func() []string { return []string{"chat"} },
		Personal: func(userID string) bool { return userID == "ben" },
		Settings: func(userID, _ string) agenda.Settings {
			rule := throttle.Rule{Max: 1, Per: time.Hour}
			if userID == "ben" {
				rule.Per = 2 * time.Hour
			}
			return agenda.Settings{MaxDefer: 24 * time.Hour, Plan: throttle.Plan{Rules: []throttle.Rule{rule}}}
		},
		Deferred: func(category, rule string, n int) { told[category+": "+rule] += n },
	})
	if err != nil {
		t.Fatal(err)
	}
	acceptForBoth := func(suffix string) {
		t.Helper()
		var entries []agenda.Entry
		for _, user := range []string{"ada", "ben"} {
			entries = append(entries, agenda.Entry{
				ID: user + suffix, UserID: user, Category: "chat", Priority: notification.PriorityNormal,
			})
		}
		if _, err := store.Accept(t.Context(), 0, entries); err != nil {
			t.Fatal(err)
		}
	}
	acceptForBoth("-1")
	acceptForBoth("-2")
	reply, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "w.1", Capacity: 8, Pull: 8})
	if err != nil {
		t.Fatal(err)
	}
	request := dispatch.TakeRequest{ID: "w.2", Capacity: 8, Wakeups: reply.Pulled}
	if _, err := store.Take(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	clear(told)
	acceptForBoth("-3")
	want := map[string]int{"chat: limit 1/1h": 1, "chat: limit 1/2h": 1}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("deferrals told (-want +got):\n%s", diff)
	}
}

// However many users have limits of their own, these are told as one rule of each kind: what is told becomes a
// label.
func TestDeferralsByOwnLimitsAreToldAsOneRule(t *testing.T) {
	t.Parallel()
	const users = 100
	told := map[string]int{}
	store, err := agenda.New(redistest.Client(t), agenda.Config{
		Partitions: 1, Personal: func(string) bool { return true },
		Settings: func(userID, _ string) agenda.Settings {
			number, _ := strconv.Atoi(strings.TrimPrefix(userID, "u"))
			rule := throttle.Rule{Max: 1, Per: time.Hour + time.Duration(number)*time.Second}
			if number%2 == 1 {
				rule = throttle.Rule{Kind: throttle.KindGap, Max: 1, Per: rule.Per}
			}
			return agenda.Settings{
				MaxDefer: 24 * time.Hour, OwnLimits: true, Plan: throttle.Plan{Rules: []throttle.Rule{rule}},
			}
		},
		Deferred: func(category, rule string, n int) { told[category+": "+rule] += n },
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 * users {
		user := "u" + strconv.Itoa(n%users)
		entry := agenda.Entry{
			ID: fmt.Sprintf("n%d", n), UserID: user, Category: "chat", Priority: notification.PriorityNormal,
		}
		if _, err := store.Accept(t.Context(), 0, []agenda.Entry{entry}); err != nil {
			t.Fatal(err)
		}
	}
	var pulled []dispatch.Wakeup
	for round := 1; round == 1 || len(pulled) > 0; round++ {
		reply, err := store.Take(t.Context(), dispatch.TakeRequest{
			ID: fmt.Sprintf("w.%d", round), Capacity: users, Pull: 100, Wakeups: pulled,
		})
		if err != nil {
			t.Fatal(err)
		}
		pulled = reply.Pulled
	}
	want := map[string]int{"chat: own limit": users / 2, "chat: own min_gap": users / 2}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("deferrals told (-want +got):\n%.2000s", diff)
	}
}

// The policy would end what a user with settings of his own may get: in a night that is not his, or after a wait that
// his limits do not ask for. A round that does not know these settings ends nothing.
func TestOwnSettingsAreAskedForBeforeAnythingEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	night := throttle.Plan{Closed: []throttle.Interval{{
		From: throttle.MicrosOf(now.Add(-time.Hour)), Until: throttle.MicrosOf(now.Add(time.Hour)),
	}}}
	for name, common := range map[string]agenda.Settings{
		"dropped in the common night": {MaxDefer: 24 * time.Hour, Drops: true, Plan: night},
		"deferred for too long":       {MaxDefer: time.Minute, Plan: night},
	} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, own settings %t", name, own), func(t *testing.T) {
				t.Parallel()
				serve := newcomerUnder(t, common, own)
				wakeups := heldOf(t, serve(dispatch.TakeRequest{ID: "w.1", Capacity: 8, Pull: 8}))
				taken := serve(dispatch.TakeRequest{ID: "w.2", Capacity: 8, Wakeups: wakeups}).Results[0]
				if granted := len(taken.Grants) == 1; granted != own {
					t.Errorf("granted %t: %+v", granted, taken)
				}
			})
		}
	}
}

// newcomerUnder accepts one notification of a user, as a process does that does not know of own settings, and returns
// the rounds of one that may know.
func newcomerUnder(t *testing.T, common agenda.Settings, own bool) func(dispatch.TakeRequest) dispatch.TakeResult {
	t.Helper()
	client := redistest.Client(t)
	store := func(personal bool) *agenda.Agendas {
		s, err := agenda.New(client, agenda.Config{
			Partitions: 1, Categories: func() []string { return []string{"promo"} },
			Personal: func(string) bool { return personal },
			Settings: func(userID, _ string) agenda.Settings {
				if userID != "" && personal {
					return agenda.Settings{MaxDefer: 24 * time.Hour}
				}
				return common
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	entry := agenda.Entry{ID: "n1", UserID: "ada", Category: "promo", Priority: notification.PriorityNormal}
	if _, err := store(false).Accept(t.Context(), 0, []agenda.Entry{entry}); err != nil {
		t.Fatal(err)
	}
	s := store(own)
	return func(r dispatch.TakeRequest) dispatch.TakeResult {
		t.Helper()
		reply, err := s.Take(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
}

// heldOf is the wake-up that a round pulled, and that the next one has to ask for, served in the meantime or not.
func heldOf(t *testing.T, r dispatch.TakeResult) []dispatch.Wakeup {
	t.Helper()
	held := r.Pulled
	for _, served := range r.Served {
		if served.Held {
			served.Wakeup.Categories = served.WakeupResult.Categories
			held = append(held, served.Wakeup)
		}
	}
	if len(held) != 1 {
		t.Fatalf("want one wake-up that is held: %+v", r)
	}
	return held
}
