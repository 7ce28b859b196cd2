package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/migrations"
)

// migrateCommand works on the schema in Postgres.
type migrateCommand struct {
	Up     migrateUpCommand     `cmd:"" help:"Migrate the schema to the version of this program. Safe to run from several processes at once."`
	Down   migrateDownCommand   `cmd:"" help:"Revert the latest migration. Data that only it has room for is lost."`
	Status migrateStatusCommand `cmd:"" help:"Show which migrations have been applied."`
}

type (
	migrateUpCommand     struct{ database }
	migrateDownCommand   struct{ database }
	migrateStatusCommand struct{ database }
)

// database is the one setting of these commands.
type database struct {
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" required:"" placeholder:"URL" help:"Postgres that keeps the store: postgres://..., or file:PATH."`
}

// migrate runs a step, if there is one, and shows what the database has then.
func (d database) migrate(ctx context.Context, step func(context.Context, string) error, to streams) error {
	url, err := settings.ReadDatabaseURL("--database-url (DATABASE_URL)", d.DatabaseURL)
	if err != nil {
		return err
	}
	if step != nil {
		if err := connect.Migrate(ctx, url, step); err != nil {
			return err
		}
	}
	return showMigrations(ctx, url, to)
}

// telling is a migrator that says when it waits for a lock.
func telling(to streams) migrations.Migrator {
	return migrations.Migrator{Tell: func(text string) {
		_, _ = fmt.Fprintln(to.err, "dispatcher: "+text) // whoever can't be told waits all the same
	}}
}

// Run migrates up.
func (c *migrateUpCommand) Run(ctx context.Context, to streams) error {
	return c.migrate(ctx, telling(to).Up, to)
}

// Run migrates one step down.
func (c *migrateDownCommand) Run(ctx context.Context, to streams) error {
	return c.migrate(ctx, telling(to).Down, to)
}

// Run shows the migrations.
func (c *migrateStatusCommand) Run(ctx context.Context, to streams) error {
	return c.migrate(ctx, nil, to)
}

func showMigrations(ctx context.Context, url string, to streams) error {
	var list []migrations.Migration
	err := connect.Migrate(ctx, url, func(ctx context.Context, url string) (err error) {
		list, err = migrations.Status(ctx, url)
		return err
	})
	if err != nil {
		return err
	}
	for _, m := range list {
		state := "pending"
		if m.Applied {
			state = "applied"
		}
		if _, err := fmt.Fprintf(to.out, "%-8s %s\n", state, m.Name); err != nil {
			return err
		}
	}
	return nil
}

// rebuildCommand builds the state in Redis again.
type rebuildCommand struct {
	settings.Server
	Verify bool `help:"Change nothing: compare Redis with Postgres and print the differences; exit 1 when there are any."`
}

// Run rebuilds, or compares.
func (c *rebuildCommand) Run(ctx context.Context, to streams) error {
	resolved, err := c.Resolve()
	if err != nil {
		return err
	}
	log := newLogger(to.err, resolved)
	if c.Verify {
		return verify(ctx, resolved, to)
	}
	done, err := deployment.Rebuild(ctx, resolved, log)
	if len(done.Partitions) > 0 {
		_, printed := fmt.Fprintf(to.out, "rebuilt %s in %s: %s, %s\n",
			plural.Of(len(done.Partitions), "partition", "partitions"), done.Took,
			plural.Of(done.Waiting, "waiting notification", "waiting notifications"),
			plural.Of(done.Windows, "window", "windows"))
		err = errors.Join(err, printed)
	}
	return err
}

func verify(ctx context.Context, resolved *settings.Resolved, to streams) error {
	differences := 0
	err := deployment.Verify(ctx, resolved, newLogger(to.err, resolved), func(d rebuild.Difference) error {
		differences++
		_, err := fmt.Fprintf(to.out, "%-8s %s  %s\n", d.What, d.ID, d.Detail)
		return err
	})
	if err != nil {
		return err
	}
	if differences > 0 {
		return fmt.Errorf("Redis and Postgres differ in %s: verify again; if they still differ, run dispatcher rebuild", //nolint:staticcheck // a name
			plural.Of(differences, "place", "places"))
	}
	_, err = fmt.Fprintln(to.out, "Redis matches Postgres")
	return err
}
