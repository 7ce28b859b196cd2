//go:build accept

package e2e_test

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/chatroom"
)

// speed is how much faster than life the recorded days are played, and their limits with them.
const speed = 600

// chatPolicy lets a user be notified once in 3 s and 100 times in a day, both divided by the speed.
const chatPolicy = `
version: 1
categories:
  default:
    limits: [{max: 1, per: 5ms}, {max: 100, per: 144s}]
`

var chatRules = []throttle.Rule{{Max: 1, Per: 3 * time.Second / speed}, {Max: 100, Per: 24 * time.Hour / speed}}

// Ten days of a chat room at 600 times its speed: each mention is enqueued at its own moment. ACCEPT_DAYS says how many
// of the days; one takes 2.4 minutes.
func TestChatRoom(t *testing.T) {
	days, err := strconv.Atoi(cmp.Or(os.Getenv("ACCEPT_DAYS"), "1"))
	if err != nil || days < 1 || days > 120 {
		t.Fatalf("ACCEPT_DAYS must be a number from 1 to 120, is %q", os.Getenv("ACCEPT_DAYS"))
	}
	d, r := deploy(t, chatPolicy, 2), newReceiver(t)
	events, firstDay := chatroom.Busiest(t, days)
	var ids []string
	begin := time.Now()
	for len(events) > 0 {
		var batch []item
		for len(events) > 0 && events[0].After(firstDay)/speed <= time.Since(begin) {
			batch = append(batch, item{UserID: events[0].UserID, To: r.server.URL})
			events = events[1:]
		}
		if len(batch) > 0 {
			ids = append(ids, d.accept(d.workers[len(ids)%2], batch)...)
		}
		<-time.After(5 * time.Millisecond)
	}
	played := time.Since(begin)
	s := d.drain(d.workers[0], 10*time.Minute)
	got := r.deliveries()
	lost, duplicates := compare(ids, got)
	broken := violations(got, chatRules...)
	pulls, deferred := float64(s.Totals.Pulls)/float64(s.Totals.Delivered),
		float64(s.Totals.Deferrals)/float64(s.Totals.Delivered)
	t.Logf("%d days of the chat room, %d mentions: played in %s, drained %s later, %d lost, %d doubled, %d violations, "+
		"%.3f pulls per delivered with %.3f deferred each", days, len(ids), played.Round(time.Second),
		(time.Since(begin) - played).Round(time.Second), lost, duplicates, broken, pulls, deferred)
	if lost+duplicates+broken > 0 || s.Totals.Delivered != int64(len(ids)) || pulls > 1.05 {
		t.Errorf("outside the bounds: every one delivered once, no violation, at most 1.05 pulls")
	}
}
