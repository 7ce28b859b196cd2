package deployment

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
)

// openEndpoints opens the stores of endpoints and events. The process knows the endpoints before it sends anything.
func (d *Deployment) openEndpoints(ctx context.Context) error {
	d.Endpoints, d.Events = endpoints.NewRedis(d.Redis.Client), events.NewRedis(d.Redis.Client)
	if d.Pool != nil {
		d.Endpoints, d.Events = endpoints.NewPostgres(d.Pool), events.NewPostgres(d.Pool)
	}
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
