package agenda_test

import (
	"hash/fnv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/chatroom"
	"github.com/pacer-notify/pacer/test/redistest"
)

// chatNights are the nights of users who live in the zones of the switches.
type chatNights struct {
	zones  []*time.Location
	closed []throttle.Closed
}

func newChatNights(t *testing.T, begin time.Time) (n chatNights) {
	t.Helper()
	for i, s := range switches {
		if i > 0 && switches[i-1].zone == s.zone {
			continue
		}
		zone, err := calendar.ParseZone(s.zone)
		if err != nil {
			t.Fatal(err)
		}
		closed, _ := usualNight.Next(throttle.MicrosOf(begin.AddDate(0, 0, -1)), zone)
		n.zones, n.closed = append(n.zones, zone), append(n.closed, closed)
	}
	return n
}

// of is the number of a user's zone, always the same.
func (n chatNights) of(user string) int {
	hash := fnv.New32a()
	hash.Write([]byte(user))
	return int(hash.Sum32() % uint32(len(n.zones)))
}

// chatDays is how many days of the chat room are played, unless CHATROOM_DAYS says another number, as make accept does.
const chatDays = 1

// Days of the chat room, whose users live in eleven zones and sleep from 22:00 to 08:00: in Europe and Beirut clocks
// are switched in the first days, in the next eight in Africa and America, too. Nobody is disturbed at night, no limit
// is exceeded, and each mention is delivered once, at the moment that the recurrence says.
func TestChatRoomAtNight(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)
	n := newChatNights(t, begin)
	plan := throttle.Plan{Rules: nightRules, Spread: nightSpread}
	w := newWorld(t, t, redistest.Client(t), agenda.Settings{Plan: plan})
	w.nights = func(user string) throttle.Closed { return n.closed[n.of(user)] }
	w.now = begin
	w.setClock()
	events, firstDay := chatroom.Busiest(t, wanted(t, "CHATROOM_DAYS", chatDays))
	arrived, admitted := map[string][]time.Time{}, map[string][]time.Time{}
	once, ids := map[string]bool{}, map[string]time.Time{}
	deliver := func(until time.Time) {
		for _, g := range w.playUntil(until) {
			if once[g.Notification.ID] {
				t.Errorf("%s was delivered twice", g.Notification.ID)
			}
			once[g.Notification.ID] = true
			admitted[g.UserID] = append(admitted[g.UserID], g.AdmittedAt)
		}
	}
	for _, m := range events {
		at := begin.Add(m.After(firstDay))
		deliver(at)
		w.advance(max(0, at.Sub(w.now)))
		ids[w.accept(agenda.Entry{UserID: m.UserID})] = at
		arrived[m.UserID] = append(arrived[m.UserID], w.now)
	}
	deliver(begin.AddDate(1, 0, 0))
	disturbed, broken, held, latest := 0, 0, 0, time.Duration(0)
	for user, arrivals := range arrived {
		zone, closed := n.zones[n.of(user)], n.closed[n.of(user)]
		own := throttle.Plan{Rules: nightRules, Closed: closed, Spread: nightSpread}.For(user)
		if err := wantOptimum(arrivals, admitted[user], own); err != nil {
			t.Errorf("%s: %v", user, err)
			continue
		}
		broken += brokenBy(admitted[user], nightRules...)
		for i, at := range admitted[user] {
			if shows(usualNight, at, zone) {
				disturbed++
			}
			if shows(usualNight, arrivals[i], zone) {
				held++
				latest = max(latest, at.Sub(closed.Open(throttle.MicrosOf(arrivals[i])).Time()))
			}
		}
	}
	t.Logf("%d mentions of %d users in %d zones: %d delivered, %d disturbed at night, %d violations; %.1f %% were held, "+
		"the last went %s after 08:00", len(events), len(arrived), len(n.zones), len(once), disturbed, broken,
		100*float64(held)/float64(len(events)), latest.Round(time.Second))
	if disturbed+broken > 0 || len(once) != len(events) || len(ids) != len(events) {
		t.Error("outside the bounds: everything delivered, nobody disturbed, no violation")
	}
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
