package app

import (
	"context"

	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/migrations"
)

// MigrateUp brings the schema to this program's version. A database that can't be reached is a [RefusalError].
func MigrateUp(ctx context.Context, address string) error {
	return storepostgres.Migrate(ctx, address, migrations.Up)
}

// MigrateDown takes the latest migration back.
func MigrateDown(ctx context.Context, address string) error {
	return storepostgres.Migrate(ctx, address, migrations.Down)
}

// Migrations lists the migrations that this program knows, and which of them the database has.
func Migrations(ctx context.Context, address string) (list []migrations.Migration, err error) {
	err = storepostgres.Migrate(ctx, address, func(ctx context.Context, url string) error {
		list, err = migrations.Status(ctx, url)
		return err
	})
	return list, err
}
