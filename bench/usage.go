package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// sample is what one round of one side measured.
type sample struct {
	rate float64 // items a second
	used usage   // for each item
}

// usage is what n items cost, or one of them, over all that worked on it. Other work on the machine changes none of it
// much: it counts, and where it takes time, that is time on a core.
type usage struct {
	process, redis, postgres time.Duration // on a core
	allocations, bytes       float64       // of this process
	commands, scripts        float64       // of Redis, those of scripts included; and scripts
	wal, rows, commits       float64       // of Postgres: bytes of its log; rows inserted, updated and deleted; commits
}

// cpu is the time on a core of all that worked on it.
func (u usage) cpu() time.Duration { return u.process + u.redis + u.postgres }

// since is what was used after before.
func (u usage) since(before usage) usage {
	return usage{
		u.process - before.process, u.redis - before.redis, u.postgres - before.postgres,
		u.allocations - before.allocations, u.bytes - before.bytes, u.commands - before.commands,
		u.scripts - before.scripts, u.wal - before.wal, u.rows - before.rows, u.commits - before.commits,
	}
}

// plus adds what something else used.
func (u usage) plus(other usage) usage {
	return u.since(usage{}.since(other))
}

// each divides by n.
func (u usage) each(n int) usage {
	d, f := time.Duration(max(1, n)), float64(max(1, n))
	return usage{
		u.process / d, u.redis / d, u.postgres / d, u.allocations / f, u.bytes / f, u.commands / f,
		u.scripts / f, u.wal / f, u.rows / f, u.commits / f,
	}
}

// String says what one item costs.
func (u usage) String() string {
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return fmt.Sprintf("%.1f µs of CPU (process %.1f, Redis %.1f, Postgres %.1f), %.0f allocations of %.0f B, "+
		"%.1f commands of Redis (%.2f scripts), %.0f B of WAL, %.2f rows written, %.2f commits", micros(u.cpu()),
		micros(u.process), micros(u.redis), micros(u.postgres), u.allocations, u.bytes, u.commands, u.scripts, u.wal,
		u.rows, u.commits)
}

// meter measures what is used by this process, and by servers where it has any.
type meter struct {
	redis    *server
	database *pgx.Conn
}

// run measures n items that do works on.
func (m *meter) run(ctx context.Context, n int, do func() error) (sample, error) {
	before, err := m.read(ctx)
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	if err := do(); err != nil {
		return sample{}, err
	}
	took := time.Since(start)
	after, err := m.read(ctx)
	s := sample{rate: float64(n) / took.Seconds(), used: after.since(before).each(n)}
	if verbose && err == nil {
		fmt.Fprintf(os.Stderr, "  %.1f k/s; each %v\n", s.rate/1000, s.used)
	}
	return s, err
}

// read reads what was used since the processes started.
func (m *meter) read(ctx context.Context) (usage, error) {
	var u usage
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return u, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	u.process = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.allocations, u.bytes = float64(memory.Mallocs), float64(memory.TotalAlloc)
	if m.redis != nil {
		u.redis = m.redis.cpu(ctx)
		u.commands, u.scripts = m.redis.commands(ctx)
	}
	if m.database == nil {
		return u, nil
	}
	return u, m.readDatabase(ctx, &u)
}

// writtenSQL returns the process that answers, the bytes of the log, and the rows written and the commits in this
// database. A backend tells of its own rows and commits when it is idle, at most once a second, so what is read here
// may lack the last few.
const writtenSQL = `SELECT pg_backend_pid(), (pg_current_wal_insert_lsn() - '0/0')::float8,
	(SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables),
	(SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = current_database())`

// readDatabase reads what the server of the database used.
func (m *meter) readDatabase(ctx context.Context, u *usage) error {
	var backend int
	if err := m.database.QueryRow(ctx, writtenSQL).Scan(&backend, &u.wal, &u.rows, &u.commits); err != nil {
		return fmt.Errorf("ask Postgres what it has written: %w", err)
	}
	var err error
	u.postgres, err = familyCPU(backend)
	return err
}

// commands is how many commands the server has run, those of scripts included, and how many scripts.
func (s *server) commands(ctx context.Context) (commands, scripts float64) {
	for line := range strings.Lines(s.client.Info(ctx, "commandstats").Val()) {
		name, value, _ := strings.Cut(line, "calls=")
		var calls float64
		if _, err := fmt.Sscanf(value, "%g", &calls); err != nil {
			continue
		}
		commands += calls
		if strings.HasPrefix(name, "cmdstat_evalsha:") {
			scripts = calls
		}
	}
	return commands, scripts
}
