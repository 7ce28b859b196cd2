package deployment

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
)

// promisePatience is how long the stores may take to tell when notifications go.
const promisePatience = 3 * time.Second

// Promises reports when notifications go. Of what is paused nobody can tell.
func (d *Deployment) Promises(ctx context.Context, requests []notification.PromiseRequest,
) ([]notification.Promise, error) {
	return patience.Ask(ctx, promisePatience, func(ctx context.Context) ([]notification.Promise, error) {
		pauses, err := d.Control.Pauses(ctx)
		if err != nil {
			return nil, err
		}
		return d.Agendas.Promises(ctx, requests, func(n *notification.Notification) bool {
			partition := strconv.Itoa(d.Agendas.PartitionOf(n.UserID))
			return slices.ContainsFunc(pauses, func(p control.Pause) bool {
				return p.Subject == control.Subject{Kind: control.Category, Name: n.Category} ||
					p.Subject == control.Subject{Kind: control.Channel, Name: string(n.Channel)} ||
					p.Subject == control.Subject{Kind: control.Partition, Name: partition}
			})
		})
	})
}
