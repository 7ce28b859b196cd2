package deployment

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/internal/store/postgres/records"
	storeredis "github.com/pacer-notify/pacer/internal/store/redis"
)

// openRecords opens what is kept in records. The process knows the endpoints before it sends anything.
func (d *Deployment) openRecords(ctx context.Context) error {
	var kept record.Store = storeredis.NewRecords(d.Redis.Client)
	if d.Pool != nil {
		kept = records.New(d.Pool)
	}
	d.Control, d.Endpoints, d.Events = control.New(kept), endpoints.NewStore(kept), events.NewStore(kept)
	if d.cfg.Directory == nil {
		d.cfg.Directory = endpoints.NewDirectory(endpoints.DirectoryConfig{Log: d.cfg.Log})
	}
	return d.cfg.Directory.Follow(ctx, d.Endpoints)
}

// EndpointService is what the API does with endpoints.
func (d *Deployment) EndpointService() endpoints.Service {
	return endpoints.Service{
		Store: d.Endpoints, CheckURL: d.Rules.Set[notification.ChannelWebhook].CheckTarget,
	}
}

// wantedFor is for how long events are written after the last process that sends them was alive.
const wantedFor = 7 * 24 * time.Hour

// wantEvents notes which events the receivers get, if this process sends to any. This is how all others know of it, see
// [control.Store.WantEvents]: scripts on Redis from their process's next look at what is paused on, Postgres's triggers
// at once.
func (d *Deployment) wantEvents(ctx context.Context) error {
	to := d.cfg.Settings.Events
	if len(to.Receivers) == 0 || !d.cfg.Settings.HasRole(settings.RoleWorker) {
		return nil
	}
	return d.Control.WantEvents(ctx, to.Types, wantedFor)
}

// EventSender sends events to the receivers that the settings name.
func (d *Deployment) EventSender(metrics prometheus.Registerer) (*events.Sender, error) {
	to, wrote := d.cfg.Settings.Events, false
	cfg := events.SenderConfig{
		Receivers: to.Receivers, Keys: to.Keys, Metrics: metrics, Log: d.cfg.Log,
		Gather: d.gatherEvents,
		Gathers: func() bool { // once more when nobody wants any from now on
			before := wrote
			wrote = d.Agendas.Events.Written()
			return wrote || before
		},
	}
	if len(to.Receivers) > 0 {
		cfg.Want = d.wantEvents
	}
	return events.NewSender(d.Events, cfg)
}

// gatherEvents moves what the scripts told to the log.
func (d *Deployment) gatherEvents(ctx context.Context) error {
	if d.Postgres != nil {
		return outbox.GatherEvents(ctx, d.Postgres.Stores)
	}
	return storeredis.GatherEvents(ctx, d.Redis.Client, d.Agendas)
}
