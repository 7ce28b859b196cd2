package storetest

import (
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// waitsSince: a view says from when max_defer counts. Of one that waits for its provider that stays its acceptance.
func waitsSince(p *probe) {
	sendAt := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	scheduled := p.accept(func(n *notification.Notification) { n.SendAt = sendAt })
	if v := p.want(scheduled.ID, notification.StatusScheduled, 0, ""); !v.WaitsSince.Equal(sendAt) {
		p.Errorf("%s waits since %s, and its send_at is %s", v.ID, v.WaitsSince, sendAt)
	}
	failed, held := wasLost, wasUntried
	failed.RetryAfter, held.RetryAfter = time.Hour, time.Hour
	for _, c := range []struct {
		outcome  dispatch.Outcome
		attempts int
		after    time.Duration
	}{{failed, 1, time.Hour}, {held, 0, 0}} {
		n := p.accept(nil)
		p.settle(p.grant(), c.outcome)
		v := p.want(n.ID, notification.StatusRetrying, c.attempts, c.outcome.Reason)
		if waited := v.WaitsSince.Sub(v.CreatedAt.Add(c.after)); waited < 0 || waited > time.Minute {
			p.Errorf("%s waits since %s, and was accepted at %s", v.ID, v.WaitsSince, v.CreatedAt)
		}
	}
}
