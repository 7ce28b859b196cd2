package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// A migration needs locks that stop everybody, and while it waits for one, everybody else waits behind it: a backup
// that reads a table for an hour would stop all accepting. So a migration soon gives up, and is tried again.
const (
	// waitForLock is how long a migration waits for a lock: less than the statements of a dispatcher do.
	waitForLock = "40ms"
	// lockPause is the pause between two tries.
	lockPause = time.Second
	// lockPatience is for how long it is tried.
	lockPatience = 10 * time.Minute
	// inUse is what a migration waits for.
	inUse = "a transaction uses a table of pacer, such as a backup; pg_locks and pg_stat_activity tell which"
)

// impatient are the migrations, of which none waits for a lock longer than waitForLock. Each sets that for its own
// transaction, because a pooler keeps no setting.
type impatient struct{ fs.FS }

// Open implements [fs.FS].
func (i impatient) Open(name string) (fs.File, error) {
	opened, err := i.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return opened, err
	}
	text, err := fs.ReadFile(i.FS, name)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	const set = "\nSET LOCAL lock_timeout = '" + waitForLock + "';"
	bounded := strings.NewReplacer("-- +goose Up", "-- +goose Up"+set, "-- +goose Down", "-- +goose Down"+set)
	return migrationFile{opened, strings.NewReader(bounded.Replace(string(text)))}, nil
}

// migrationFile is a file with another text.
type migrationFile struct {
	fs.File
	text io.Reader
}

// Read implements [fs.File].
func (f migrationFile) Read(p []byte) (int, error) { return f.text.Read(p) }

// Migrator migrates a database that is in use.
type Migrator struct {
	// Tell is told when a migration waits for somebody's lock. Defaults to telling nobody.
	Tell func(string)
	// Patience is for how long one is tried that waits. Defaults to 10 minutes.
	Patience time.Duration
	// files are the migrations. Default to those of this program.
	files fs.FS
}

// Up applies the migrations that are missing.
func (m Migrator) Up(ctx context.Context, url string) error {
	return m.migrate(ctx, url, "up", func(p *goose.Provider) error { _, err := p.Up(ctx); return err })
}

// Down takes the latest migration back, with the data that only it has room for.
func (m Migrator) Down(ctx context.Context, url string) error {
	return m.migrate(ctx, url, "down", func(p *goose.Provider) error { _, err := p.Down(ctx); return err })
}

// migrate takes a step, again and again while somebody has a table locked that it needs.
func (m Migrator) migrate(ctx context.Context, url, way string, step func(*goose.Provider) error) error {
	if m.Patience == 0 {
		m.Patience = lockPatience
	}
	if m.files == nil {
		m.files = files
	}
	return with(ctx, url, m.files, func(p *goose.Provider) error {
		for until := time.Now().Add(m.Patience); ; {
			err := step(p)
			if failed, ok := errors.AsType[*pgconn.PgError](err); err == nil || !ok || failed.Code != "55P03" {
				return wrapped(way, err)
			}
			if time.Now().After(until) {
				return fmt.Errorf("migrate the schema %s: tried for %s, but %s; try again once that has ended: %w", way,
					m.Patience, inUse, err)
			}
			if m.Tell != nil {
				m.Tell("waiting to migrate the schema " + way + ": " + inUse)
				m.Tell = nil
			}
			select {
			case <-ctx.Done():
				return wrapped(way, errors.Join(ctx.Err(), err))
			case <-time.After(lockPause):
			}
		}
	})
}

// wrapped says what failed.
func wrapped(way string, err error) error {
	if err != nil {
		err = fmt.Errorf("migrate the schema %s: %w", way, err)
	}
	return err
}
