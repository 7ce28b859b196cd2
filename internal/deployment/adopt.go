package deployment

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/store/postgres/adopt"
	"github.com/pacer-notify/pacer/internal/store/postgres/records"
	storeredis "github.com/pacer-notify/pacer/internal/store/redis"
)

// settleStore has a new database adopt what the deployment kept in Redis alone. It refuses to start beside a store that
// this process would not look into: one in Postgres, or notifications in Redis that the relay would remove.
func (d *Deployment) settleStore(ctx context.Context) error {
	if d.cfg.Settings.Redis == nil {
		return nil
	}
	if d.Relay != nil {
		d.publishing.succeed(ctx) // its categories count on in what is adopted
		done, err := adopt.Into(ctx, d.Pool, d.Agendas, func(to *adopt.Adoption) error {
			return (&adoption{d, to, storeredis.New(d.Redis.Pipe, d.Agendas)}).run(ctx)
		})
		if err != nil {
			return err
		}
		if done != nil && done.Notifications+done.Admissions > 0 {
			d.cfg.Log.InfoContext(ctx, "moved what this deployment kept in Redis to Postgres",
				"notifications", done.Notifications, "admissions", done.Admissions)
		}
	}
	t, err := outlook.Of(d.Agendas).Stats(ctx)
	elsewhere, fault := maintenance.Of(d.Agendas).Elsewhere(ctx) // a rebuild that has begun meanwhile shows by now
	waits := t.Queued + t.Deferred + t.Scheduled + t.Retrying + t.Sending
	switch err = errors.Join(err, fault); {
	case err == nil && elsewhere && d.Relay == nil:
		return refusal.New("the deployment on Redis at %s has its store in Postgres: set DATABASE_URL for this process, too",
			d.cfg.Settings.Redis)
	case err == nil && !elsewhere && d.Relay != nil && waits > 0:
		return refusal.New("in Redis at %s notifications of a deployment without DATABASE_URL wait (%d), but this database was used before: name a new database, or a Redis that is empty",
			d.cfg.Settings.Redis, waits)
	}
	return err
}

// adoption brings a deployment's store from Redis to Postgres.
type adoption struct {
	into *Deployment
	to   *adopt.Adoption
	from *storeredis.Store
}

// run adopts everything. It can be repeated: what is not in the transaction is only written again. Once the partitions
// are fenced, no process without DATABASE_URL changes what it reads.
func (a *adoption) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		a.check, a.pauses, a.endpoints, a.preferences, a.devices, a.notifications, a.admissions,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// check refuses to adopt what belongs to another database, or to processes that still run, and fences the partitions.
func (a *adoption) check(ctx context.Context) error {
	if built, err := maintenance.Of(a.into.Agendas).WasBuilt(ctx); err != nil {
		return err
	} else if built {
		return refusal.New("Redis at %s belongs to another database than DATABASE_URL, which is new: name that database, or a Redis that is empty",
			a.into.cfg.Settings.Redis)
	}
	if running, err := presence.Running(ctx, a.into.Redis.Client); err != nil {
		return err
	} else if running.ID != "" {
		return refusal.New("process %s on %s runs without DATABASE_URL: stop every dispatcher, then start them with it",
			running.ID, running.Host)
	}
	return maintenance.Of(a.into.Agendas).Fence(ctx, a.to.Mark)
}

func (a *adoption) pauses(ctx context.Context) error {
	pauses, err := control.New(storeredis.NewRecords(a.into.Redis.Client)).Pauses(ctx)
	for i := 0; err == nil && i < len(pauses); i++ {
		err = a.into.Control.Pause(ctx, pauses[i])
	}
	return err
}

// endpoints copies the webhook endpoints. The events that tell of them stay behind, and their numbers are not given
// again: a program that has read some asks for what comes after.
func (a *adoption) endpoints(ctx context.Context) error {
	from := storeredis.NewRecords(a.into.Redis.Client)
	all, err := endpoints.NewStore(from).List(ctx, "", endpoints.MaxEndpoints)
	for i := 0; err == nil && i < len(all); i++ {
		err = a.into.Endpoints.Add(ctx, &all[i])
		if _, taken := errors.AsType[*endpoints.TakenError](err); taken {
			err = nil
		}
	}
	latest, fault := from.Latest(ctx, events.Log)
	return errors.Join(err, fault, records.New(a.into.Pool).Skip(ctx, events.Log, latest))
}

// preferencesPage is how many users' preferences of each partition are copied at a time.
const preferencesPage = 100

// preferences copies what users want, and has this process know it: their own limits say how far windows look back.
func (a *adoption) preferences(ctx context.Context) error {
	next := make([]int64, a.from.PreferencesParts())
	for more := true; more; {
		more = false
		wanted := map[string]*notification.Preferences{}
		for part, page := range a.from.ChangedPreferences(ctx, next, preferencesPage) {
			if page.Err != nil {
				return page.Err
			}
			for _, change := range page.Changes {
				if next[part] = change.Version + 1; change.UserID != "" {
					wanted[change.UserID] = &change.Preferences
				}
			}
			more = more || len(page.Changes) == preferencesPage
		}
		if err := a.into.Postgres.SetManyPreferences(ctx, wanted); err != nil {
			return err
		}
	}
	return a.into.Preferences.Refresh(ctx)
}

func (a *adoption) devices(ctx context.Context) error {
	return a.from.EachWithDevices(ctx, func(users []string) error {
		return together(ctx, len(users), func(ctx context.Context, i int) error {
			devices, err := a.from.Devices(ctx, users[i])
			for i := 0; err == nil && i < len(devices); i++ {
				put := devices[i]
				if err = a.into.Postgres.PutDevice(ctx, &put); err == nil && !devices[i].Active {
					err = a.into.Postgres.Deactivate(ctx, &devices[i], time.Time{}, devices[i].Reason)
				}
			}
			return err
		})
	})
}

// notifications adopts notifications, with what became of them on each device: what reached it is not sent there again.
func (a *adoption) notifications(ctx context.Context) error {
	return a.from.EachKept(ctx, func(states []*agenda.State, content []*notification.Notification) error {
		err := together(ctx, len(content), func(ctx context.Context, i int) error {
			if content[i].To != "" || states[i].Generation == 0 {
				return nil
			}
			deliveries, err := a.from.Deliveries(ctx, content[i])
			for j := 0; err == nil && j < len(deliveries); j++ {
				err = a.into.Postgres.NoteDelivery(ctx, content[i], deliveries[j])
			}
			return err
		})
		if err != nil {
			return err
		}
		return a.to.Take(ctx, states, content)
	})
}

func (a *adoption) admissions(ctx context.Context) error {
	return maintenance.Of(a.into.Agendas).EachLogged(ctx, func(logged []maintenance.Logged) error {
		return a.to.Count(ctx, logged, a.into.Rules.CategoryNames())
	})
}

// together does something n times, some of it at once.
func together(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
