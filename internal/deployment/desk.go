package deployment

import (
	"context"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
)

// Desk tells what is asked of the deployment. Besides the pauses that the deployment was told of, it knows those from
// outside that the follower sees, unless that is nil.
func (d *Deployment) Desk(follower *control.Follower) *desk.Desk {
	cfg := desk.Config{
		Store: d.Store, Agendas: d.Agendas, Policy: d.Rules,
		Pauses: func(ctx context.Context) ([]control.Pause, error) {
			pauses, err := d.Control.Pauses(ctx)
			if follower != nil {
				pauses = append(pauses, follower.FromOutside()...)
			}
			return pauses, err
		},
	}
	if d.Postgres != nil {
		cfg.Users = d.Postgres
	}
	return desk.New(cfg)
}
