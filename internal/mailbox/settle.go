package mailbox

import (
	"context"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// letters of the fates, as the scripts know them.
var letters = map[dispatch.Fate]string{
	dispatch.Delivered: "D", dispatch.Failed: "F", dispatch.Retry: "r", dispatch.Returned: "q",
	dispatch.Expired: "E", dispatch.Cancelled: "C", dispatch.Forgotten: "x",
}

// Settle writes what became of a grant.
func (s *Store) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	if (o.Fate == dispatch.Delivered || o.Fate == dispatch.Failed) && !o.Refund {
		written, err := s.end.Run(ctx, s.client, s.keys(g.Lane), g.Notification.ID, strconv.Itoa(g.Generation),
			letters[o.Fate], o.Reason, s.retention).Int()
		return dispatch.Settlement{Stale: err == nil && written == 0}, lost(err)
	}
	args := make([]any, 0, 32)
	args = append(args, g.Category, g.UserID, g.Notification.ID, strconv.Itoa(g.Generation), g.Tick.ID, letters[o.Fate],
		o.Reason, micros(o.RetryAfter), flag(o.Refund), countOf(o), s.retention, s.grace)
	if o.Refund {
		args = s.cfg.Terms(g.UserID, g.Category).Plan.Args(args)
	}
	reply, err := s.run(ctx, s.settle, g.Lane, args)
	if err != nil {
		return dispatch.Settlement{}, lost(err)
	}
	r := reader{fields: reply}
	settled := dispatch.Settlement{}
	switch r.text(0) {
	case "stale":
		settled.Stale = true
	case "retry":
		settled.RetryIn = max(time.Microsecond, time.Duration(r.number(2)-r.number(1))*time.Microsecond)
	}
	return settled, r.fault
}

// countOf tells the script what an outcome counts as.
func countOf(o dispatch.Outcome) string {
	switch {
	case o.Failure:
		return "1"
	case o.Untried:
		return "2"
	}
	return "0"
}
