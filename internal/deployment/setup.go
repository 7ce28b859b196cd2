package deployment

import (
	"context"
	"fmt"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
)

// LogSetup logs where the deployment keeps what, and how durable that is.
func (d *Deployment) LogSetup(ctx context.Context) {
	log, cfg := d.cfg.Log, d.cfg.Settings
	switch cfg.Setup {
	case settings.SetupEmbedded:
		log.InfoContext(ctx, "the set-up of this deployment", "kind", cfg.Setup, "means",
			"Redis runs in this process and nothing survives a restart")
	case settings.SetupRedis:
		log.InfoContext(ctx, "the set-up of this deployment", "kind", cfg.Setup, "redis", cfg.Redis.String(), "means",
			"notifications are as durable as Redis is configured to be")
	case settings.SetupDurable:
		log.InfoContext(ctx, "the set-up of this deployment", "kind", cfg.Setup, "redis", cfg.Redis.String(),
			"postgres", d.database(), "means", "Postgres is the store, and nothing is lost when Redis loses everything")
	case settings.SetupDurableOneNode:
		log.InfoContext(ctx, "the set-up of this deployment", "kind", cfg.Setup, "postgres", d.database(),
			"means", "Postgres is the store, and Redis runs in this process, which must be the only one of the deployment")
	}
	if d.Pool != nil && connect.ThroughPooler(d.Pool) {
		log.InfoContext(ctx, "Postgres is behind a connection pooler", "means",
			"each statement is planned when it runs, which costs some speed")
	}
}

// database names the database without user and password.
func (d *Deployment) database() string {
	c := d.Pool.Config().ConnConfig
	return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)
}
