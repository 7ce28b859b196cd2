package main

import (
	"context"
	"fmt"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/settings"
)

// importCommand brings a deployment's store from Redis to Postgres.
type importCommand struct {
	settings.Server
	Decline bool `help:"Import nothing: the first dispatcher that starts with DATABASE_URL drops what Redis keeps."`
}

// Run imports, or declines to.
func (c *importCommand) Run(ctx context.Context, to streams) error {
	resolved, err := c.Resolve()
	if err != nil {
		return err
	}
	log := newLogger(to.err, resolved)
	if c.Decline {
		if err := deployment.DeclineImport(ctx, resolved, log); err != nil {
			return err
		}
		_, err = fmt.Fprintln(to.out, "declined: the first dispatcher that starts with DATABASE_URL will drop what Redis keeps")
		return err
	}
	done, err := deployment.Import(ctx, resolved, log)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.out, "imported %s (%d waiting), %s, %s, %s\n",
		plural.Of(done.Notifications, "notification", "notifications"), done.Waiting,
		plural.Of(done.Admissions, "admission", "admissions"),
		plural.Of(done.Keys, "idempotency key", "idempotency keys"), plural.Of(done.Devices, "device", "devices"))
	return err
}
