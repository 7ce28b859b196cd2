package postgres

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

const (
	// restorers is how many users have their windows restored at once.
	restorers = 16
	// windowPart is how many admissions one script restores at most. Each takes 10 to 20 µs of a processor, under four
	// limits and three caps 60 µs, and no script may take 10 ms.
	windowPart = 100
)

// restoreWindows counts the admissions of each backlog again, except in the logs that were cleared since. Many users
// are restored at once, each in order.
func (r *rebuild) restoreWindows(ctx context.Context, tx querier, sent []admission) error {
	now, err := r.store.agendas.Now(ctx)
	if err != nil {
		return err
	}
	all, group := everyone(tx, now, r.cfg.Windows), errgroup.Group{}
	all.inFlight = sent
	group.SetLimit(restorers)
	var user *userWindows
	err = all.each(ctx, func(p page) error {
		partition := r.store.agendas.PartitionOf(p.userID)
		if !r.rebuilds(partition) || r.kept[partition].Windows {
			return nil
		}
		if user == nil {
			user = &userWindows{rebuild: r, cleared: p.cleared, parts: map[string]*agenda.WindowPart{}}
		}
		if !p.last {
			return user.add(ctx, p.admitted)
		}
		of := user
		user = nil
		group.Go(func() error {
			if err := of.add(ctx, p.admitted); err != nil {
				return err
			}
			return of.end(ctx, p.userID)
		})
		return nil
	})
	restored := group.Wait()
	if err != nil {
		return err
	}
	return restored
}

// userWindows restores the admissions of one user, of each backlog in parts.
type userWindows struct {
	*rebuild
	cleared cleared
	parts   map[string]*agenda.WindowPart // by category: what came since the last part that was restored
}

// add takes the next admissions. One that was cleared from its category's log was cleared from all of its logs. One
// that was cleared from logs of caps only, with another category, counts in the others.
func (w *userWindows) add(ctx context.Context, admitted []admission) error {
	for i := range admitted {
		a := &admitted[i]
		if w.cleared.has(categoryLog(a.Category), a.At) {
			continue
		}
		part := w.parts[a.Category]
		if part == nil {
			part = &agenda.WindowPart{}
			w.parts[a.Category] = part
			w.windows.Add(1)
		}
		var caps []string
		if w.cleared != nil {
			caps = w.cleared.caps(w.store.agendas.PlanOf(a.UserID, a.Category), a.At)
		}
		if n := len(part.Admitted); n == windowPart || n > 0 && !slices.Equal(caps, part.Cleared) {
			part.More = true
			if err := w.restore(ctx, a.UserID, a.Category, part); err != nil {
				return err
			}
			*part = agenda.WindowPart{Before: part.Before + n}
		}
		part.Cleared = caps
		part.Admitted = append(part.Admitted, agenda.Admission{
			At: a.At, Channel: notification.Channel(a.Channel), InFlight: a.grant,
		})
	}
	return nil
}

// end restores what is left of each backlog.
func (w *userWindows) end(ctx context.Context, userID string) error {
	for category, part := range w.parts {
		if err := w.restore(ctx, userID, category, part); err != nil {
			return err
		}
	}
	return nil
}

func (w *userWindows) restore(ctx context.Context, userID, category string, part *agenda.WindowPart) error {
	backlog := dispatch.BacklogOf(userID, category, w.store.agendas.Partitions())
	return w.store.agendas.RestoreWindow(ctx, w.token, backlog, *part)
}
