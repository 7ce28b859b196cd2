package postgres

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// refuseOverflow refuses those of a batch with the given indexes that an overflow ladder does not let in, and returns
// the others. It is a look before the insert: what others accept meanwhile is not seen, so that as many more may be
// accepted as there are callers at the same moment. While Redis does not respond, nothing is refused.
func (a *accepting) refuseOverflow(ctx context.Context, batch []*notification.Notification, of []int,
	accepted []intake.Accepted,
) ([]int, error) {
	ladders, waiting := a.judged(ctx, batch, of)
	if len(waiting) == 0 {
		return of, nil
	}
	refused := map[int]notification.Rung{}
	var ids []string
	for _, i := range of {
		n := batch[i]
		backlog := dispatch.Backlog{UserID: n.UserID, Category: n.Category}
		rung, refuses := ladders[i].Refuses(n, waiting[backlog])
		if !refuses {
			waiting[backlog]++
			continue
		}
		refused[i] = rung
		ids = append(ids, n.ID)
	}
	if len(refused) == 0 {
		return of, nil
	}
	known, err := a.known(ctx, ids) // a repeat gets the first response
	if err != nil {
		return nil, limited.Describe("look for what was accepted before", err)
	}
	repeats := map[string]bool{}
	for i := range known {
		repeats[known[i].ID] = true
	}
	others := of[:0]
	for _, i := range of {
		n := batch[i]
		rung, refuses := refused[i]
		if !refuses || repeats[n.ID] {
			others = append(others, i)
			continue
		}
		accepted[i].Err = &notification.OverflowError{Category: n.Category, Rung: rung}
		a.stores.Agendas.Config().Overflowed(n.Category, string(notification.OverflowRefuse))
	}
	return others, nil
}

// judged returns the ladders of those with the given indexes that may be refused, and how many wait in their backlogs;
// no backlogs while Redis does not respond.
func (a *accepting) judged(ctx context.Context, batch []*notification.Notification, of []int,
) (ladders map[int]notification.Ladder, waiting map[dispatch.Backlog]int) {
	var backlogs []dispatch.Backlog
	for _, i := range of {
		n := batch[i]
		if !a.cfg.MayRefuse(n.Category) || n.SendAt.After(time.Now()) {
			continue
		}
		settings := a.stores.Agendas.SettingsOf(n.UserID, n.Category)
		if settings.LadderFor(n.Priority) == "" {
			continue
		}
		if ladders == nil {
			ladders = map[int]notification.Ladder{}
		}
		ladders[i] = settings.Overflow
		backlogs = append(backlogs, dispatch.Backlog{UserID: n.UserID, Category: n.Category})
	}
	if len(backlogs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.stores.PlacePatience)
	defer cancel()
	waiting, err := outlook.Of(a.stores.Agendas.Agendas).CountWaiting(ctx, backlogs)
	if err != nil {
		return nil, nil
	}
	return ladders, waiting
}
