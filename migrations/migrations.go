// Package migrations holds the Postgres schema as SQL files, each with its way up and its way down. It brings a
// database to the version that this program works with. Any number of processes may migrate at once: they take turns.
package migrations

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed *.sql
var files embed.FS

// table holds the migrations that were applied. The name has a schema, because Postgres looks for a table of a role
// called pacer in the schema pacer first.
const table = "public.pacer_migrations"

// Migration is one step of the schema.
type Migration struct {
	Version int64
	// Name is the name of its file.
	Name    string
	Applied bool
}

// VersionError says that the database's schema is not the one that this program works with.
type VersionError struct {
	// Found is the database's version, 0 when there is no schema; Wanted is this program's.
	Found, Wanted int64
}

// Error says what the database has, what the program needs, and what to run.
func (e *VersionError) Error() string {
	switch {
	case e.Found == 0:
		return "the database has no schema of pacer: run dispatcher migrate up"
	case e.Found < e.Wanted:
		return fmt.Sprintf("the database's schema has version %d, this program needs %d: run dispatcher migrate up",
			e.Found, e.Wanted)
	}
	return fmt.Sprintf("the database's schema has version %d, this program knows %d: run a newer dispatcher", e.Found,
		e.Wanted)
}

// EncodingError says that the database can't hold every text.
type EncodingError struct{ Found string }

// Error says what the database has, and how to make another.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("the database has the encoding %s, which can't hold every text: use a database with UTF8, as "+
		"CREATE DATABASE pacer ENCODING 'UTF8' TEMPLATE template0 makes one", e.Found)
}

// checkEncoding returns an [*EncodingError] unless it is UTF-8.
func checkEncoding(found string) error {
	if found != "UTF8" {
		return &EncodingError{Found: found}
	}
	return nil
}

// Pin sets how a connection writes values as text, whatever the database or the role would have. A pooler keeps these
// settings for its clients, and few others.
func Pin(params map[string]string) {
	maps.Copy(params, map[string]string{
		"client_encoding": "UTF8", "datestyle": "ISO, MDY", "timezone": "UTC", "standard_conforming_strings": "on",
	})
}

// with runs do on a provider of some migrations over the database at url.
func with(ctx context.Context, url string, of fs.FS, do func(*goose.Provider) error) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read the database's address: %w", err)
	}
	// A pooler keeps no prepared statement, and goose runs each statement once.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	Pin(config.RuntimeParams)
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }() // no statement is under way any more
	var encoding string
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding); err != nil {
		return err
	}
	if err := checkEncoding(encoding); err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, impatient{of},
		goose.WithTableName(table), goose.WithSessionLocker(&locker{db: db}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	return do(provider)
}

// Up is [Migrator.Up] without messages.
func Up(ctx context.Context, url string) error { return Migrator{}.Up(ctx, url) }

// Down is [Migrator.Down] without messages.
func Down(ctx context.Context, url string) error { return Migrator{}.Down(ctx, url) }

// Status lists the migrations that this program knows.
func Status(ctx context.Context, url string) ([]Migration, error) {
	var list []Migration
	err := with(ctx, url, files, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("read the schema's version: %w", err)
		}
		for _, s := range states {
			list = append(list, Migration{
				Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied,
			})
		}
		return nil
	})
	return list, err
}

// Check returns a [*VersionError] unless the database has the version that this program works with, and an
// [*EncodingError] unless it can hold every text. It changes nothing.
func Check(ctx context.Context, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) error {
	wanted, err := latest()
	if err != nil {
		return err
	}
	var exists bool
	var encoding string
	err = conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL, current_setting('server_encoding')", table).
		Scan(&exists, &encoding)
	if err != nil {
		return fmt.Errorf("look for the schema: %w", err)
	}
	if err := checkEncoding(encoding); err != nil {
		return err
	}
	found := int64(0)
	if exists {
		// In older versions of the table a migration that was taken back has a row with is_applied false. The newest
		// row counts.
		const query = `SELECT coalesce(max(version_id), 0) FROM (
			SELECT DISTINCT ON (version_id) version_id, is_applied FROM ` + table +
			` ORDER BY version_id, id DESC) v WHERE is_applied`
		if err := conn.QueryRow(ctx, query).Scan(&found); err != nil {
			return fmt.Errorf("read the schema's version: %w", err)
		}
	}
	if found != wanted {
		return &VersionError{Found: found, Wanted: wanted}
	}
	return nil
}

// latest is the newest version among the files.
func latest() (int64, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return 0, err
	}
	newest := int64(0)
	for _, entry := range entries {
		version, err := goose.NumericComponent(entry.Name())
		if err != nil {
			return 0, err
		}
		newest = max(newest, version)
	}
	return newest, nil
}
