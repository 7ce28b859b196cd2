package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/pacer-notify/pacer/internal/settings"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
)

func (a *App) roles() []string {
	names := make([]string, len(a.cfg.Roles))
	for i, role := range a.cfg.Roles {
		names[i] = string(role)
	}
	return names
}

// logFacts writes one line per fact of this process.
func (a *App) logFacts(ctx context.Context) {
	log := a.log
	switch a.cfg.Setup {
	case settings.SetupEmbedded:
		log.InfoContext(ctx, "set-up", "kind", a.cfg.Setup, "means",
			"Redis runs in this process and nothing survives a restart")
	case settings.SetupRedis:
		log.InfoContext(ctx, "set-up", "kind", a.cfg.Setup, "redis", a.cfg.Redis.String(), "means",
			"all is as durable as Redis is configured")
	case settings.SetupDurable:
		log.InfoContext(ctx, "set-up", "kind", a.cfg.Setup, "redis", a.cfg.Redis.String(), "postgres", a.database(),
			"means", "Postgres keeps the store, and Redis can be lost whole")
	case settings.SetupDurableOneNode:
		log.InfoContext(ctx, "set-up", "kind", a.cfg.Setup, "postgres", a.database(),
			"means", "Postgres keeps the store, and Redis runs in this process, the only one of the deployment")
	}
	if a.pool != nil && storepostgres.ThroughPooler(a.pool) {
		log.InfoContext(ctx, "Postgres is behind a connection pooler", "means",
			"each statement is planned when it runs, which costs some speed")
	}
	log.InfoContext(ctx, "process", "id", a.announcer.ID(), "roles", strings.Join(a.roles(), ","))
	if a.api != nil {
		log.InfoContext(ctx, "API", "url", "http://"+a.api.addr())
	}
	if a.ops != nil {
		log.InfoContext(ctx, "ops pages", "url", "http://"+a.ops.addr())
	}
	log.InfoContext(ctx, "policy", "file", a.policy.Name(), "categories", len(a.policy.Current().Categories))
	log.InfoContext(ctx, "channels", "configured", strings.Join(a.rules.channels.Names(), ","))
	log.InfoContext(ctx, "partitions", "count", a.cfg.Partitions)
	if a.workers != nil {
		log.InfoContext(ctx, "workers", "concurrency", a.cfg.Concurrency)
	}
}

// database names the database without user and password.
func (a *App) database() string {
	c := a.pool.Config().ConnConfig
	return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)
}
