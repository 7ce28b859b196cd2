package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// Postgres keeps them where the store is: they outlive all of Redis.
type Postgres struct{ pool *pgxpool.Pool }

// NewPostgres makes a store on a database that is migrated.
func NewPostgres(pool *pgxpool.Pool) *Postgres { return &Postgres{pool} }

// unlocked runs statements that do not wait for long when another transaction has locked their row.
func (p *Postgres) unlocked() limited.Impatient {
	return limited.Impatient{Pool: p.pool, Wait: "1s"}
}

// Pauses implements [Store].
func (p *Postgres) Pauses(ctx context.Context) ([]Pause, error) {
	rows, err := p.pool.Query(ctx, `SELECT kind, name, who, why, at FROM pacer.pauses ORDER BY kind, name`)
	if err != nil {
		return nil, fmt.Errorf("read what is paused: %w", err)
	}
	pauses, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (pause Pause, err error) {
		return pause, row.Scan(&pause.Kind, &pause.Name, &pause.By, &pause.Why, &pause.At)
	})
	if err != nil {
		return nil, fmt.Errorf("read what is paused: %w", err)
	}
	return pauses, nil
}

// Pause implements [Store].
func (p *Postgres) Pause(ctx context.Context, pause Pause) error {
	if _, err := p.unlocked().Exec(ctx, `INSERT INTO pacer.pauses (kind, name, who, why) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, name) DO UPDATE SET who = excluded.who, why = excluded.why, at = excluded.at`,
		string(pause.Kind), pause.Name, pause.By, pause.Why); err != nil {
		return fmt.Errorf("pause %s: %w", pause.Subject, err)
	}
	return nil
}

// Resume implements [Store].
func (p *Postgres) Resume(ctx context.Context, s Subject) (bool, error) {
	tag, err := p.unlocked().Exec(ctx, `DELETE FROM pacer.pauses WHERE kind = $1 AND name = $2`, string(s.Kind), s.Name)
	if err != nil {
		return false, fmt.Errorf("resume %s: %w", s, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Note implements [Store].
func (p *Postgres) Note(ctx context.Context, e Entry) error {
	if _, err := p.pool.Exec(ctx, `INSERT INTO pacer.audit (who, action, subject, detail) VALUES ($1, $2, $3, $4)`,
		e.By, e.Action, e.Subject, e.Detail); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// Audit implements [Store].
func (p *Postgres) Audit(ctx context.Context, limit int) ([]Entry, error) {
	rows, err := p.pool.Query(ctx, `SELECT at, who, action, subject, detail FROM pacer.audit ORDER BY id DESC LIMIT $1`,
		limit)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Entry, err error) {
		return e, row.Scan(&e.At, &e.By, &e.Action, &e.Subject, &e.Detail)
	})
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return entries, nil
}

// ClearedSince implements [Store].
func (p *Postgres) ClearedSince(ctx context.Context, since time.Time) (map[string]time.Time, error) {
	rows, err := p.pool.Query(ctx,
		`SELECT subject, at FROM pacer.audit WHERE action = 'clear' AND at > $1 ORDER BY at`, since)
	if err != nil {
		return nil, fmt.Errorf("read whose windows were cleared: %w", err)
	}
	users := map[string]time.Time{}
	var user string
	var at time.Time
	if _, err := pgx.ForEachRow(rows, []any{&user, &at}, func() error { users[user] = at; return nil }); err != nil {
		return nil, fmt.Errorf("read whose windows were cleared: %w", err)
	}
	return users, nil
}

// AddJob implements [Jobs].
func (p *Postgres) AddJob(ctx context.Context, j Job) error {
	return p.inTransaction(ctx, "add a job", func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&j.At); err != nil {
			return err
		}
		text, err := json.Marshal(j)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO pacer.jobs (id, job) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`,
			j.ID, string(text)); err != nil {
			return err
		}
		jobs, err := p.jobs(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM pacer.jobs WHERE id = ANY ($1)`, forgotten(jobs))
		return err
	})
}

// Jobs implements [Jobs].
func (p *Postgres) Jobs(ctx context.Context) ([]Job, error) {
	jobs, err := p.jobs(ctx, p.pool)
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	return jobs, nil
}

func (p *Postgres) jobs(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
},
) ([]Job, error) {
	rows, err := db.Query(ctx, `SELECT job FROM pacer.jobs`)
	if err != nil {
		return nil, err
	}
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (j Job, err error) {
		return j, row.Scan(&j)
	})
	sortJobs(jobs)
	return jobs, err
}

// ChangeJob implements [Jobs].
func (p *Postgres) ChangeJob(ctx context.Context, id string, change func(*Job, time.Time) error) (*Job, error) {
	var j Job
	err := p.inTransaction(ctx, "change job "+id, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT job FROM pacer.jobs WHERE id = $1 FOR UPDATE`, id).Scan(&j)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoJob
		}
		if err != nil {
			return err
		}
		var now time.Time // as of when the row was locked
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
			return err
		}
		if err := change(&j, now.UTC()); err != nil {
			return err
		}
		text, err := json.Marshal(j)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE pacer.jobs SET job = $2 WHERE id = $1`, id, string(text))
		return err
	})
	return &j, err
}

// inTransaction runs do in a transaction.
func (p *Postgres) inTransaction(ctx context.Context, what string, do func(pgx.Tx) error) error {
	if err := pgx.BeginFunc(ctx, p.pool, do); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
