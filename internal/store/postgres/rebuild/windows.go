package rebuild

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/stream"
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
func (r *run) restoreWindows(ctx context.Context, tx limited.Querier, sent []stream.Admission) error {
	now, err := r.by.stores.Agendas.Now(ctx)
	if err != nil {
		return err
	}
	all, group := stream.Everyone(tx, now, r.by.windows), errgroup.Group{}
	all.InFlight = sent
	group.SetLimit(restorers)
	var user *userWindows
	err = all.Each(ctx, func(p stream.Page) error {
		partition := r.by.stores.Agendas.PartitionOf(p.UserID)
		if !r.rebuilds(partition) || r.kept[partition].Windows {
			return nil
		}
		if user == nil {
			user = &userWindows{of: r, cleared: p.Cleared, parts: map[string]*agenda.WindowPart{}}
		}
		if !p.Last {
			return user.add(ctx, p.Admitted)
		}
		of := user
		user = nil
		group.Go(func() error {
			if err := of.add(ctx, p.Admitted); err != nil {
				return err
			}
			return of.end(ctx, p.UserID)
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
	of      *run
	cleared stream.Cleared
	parts   map[string]*agenda.WindowPart // by category: what came since the last part that was restored
}

// add takes the next admissions. One that was cleared from its category's log was cleared from all of its logs. One
// that was cleared from logs of caps only, with another category, counts in the others.
func (w *userWindows) add(ctx context.Context, admitted []stream.Admission) error {
	for i := range admitted {
		a := &admitted[i]
		if w.cleared.Has(stream.CategoryLog(a.Category), a.At) {
			continue
		}
		part := w.parts[a.Category]
		if part == nil {
			part = &agenda.WindowPart{}
			w.parts[a.Category] = part
			w.of.windows.Add(1)
		}
		var caps []string
		if w.cleared != nil {
			caps = w.cleared.Caps(w.of.by.stores.Agendas.SettingsOf(a.UserID, a.Category).Plan, a.At)
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
			At: a.At, Channel: notification.Channel(a.Channel), InFlight: a.Grant,
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
	backlog := dispatch.BacklogOf(userID, category, w.of.by.stores.Agendas.Partitions())
	return w.of.by.stores.Agendas.RestoreWindow(ctx, w.of.token, backlog, *part)
}
