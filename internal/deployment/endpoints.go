package deployment

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/record"
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

// EventSender sends events to the receivers that the settings name.
func (d *Deployment) EventSender(metrics prometheus.Registerer) (*events.Sender, error) {
	to := d.cfg.Settings.Events
	return events.NewSender(d.Events, events.SenderConfig{
		Receivers: to.Receivers, Keys: to.Keys, Metrics: metrics, Log: d.cfg.Log,
	})
}
