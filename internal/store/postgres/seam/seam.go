// Package seam is what the parts of this store have in common: the two stores, and how long each is waited for.
package seam

import (
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

const (
	// ClaimLock is the advisory lock that claims share and that a rebuild takes alone: "claim" in ASCII.
	ClaimLock = 0x636c61696d
	// RebuildLock is the advisory lock of the process that rebuilds, or adopts: "rebuild" in ASCII.
	RebuildLock = 0x72656275696c64
)

// Stores are Postgres and Redis.
type Stores struct {
	Pool *pgxpool.Pool
	// DB is the pool for what nobody waits for: each wait is bounded by StatementTimeout.
	DB limited.DB
	// Changes is the pool for the callers of the API that write, except for those that accept.
	Changes limited.Patient
	Agendas *maintenance.Agendas
	// StatementTimeout bounds every statement but those that accept.
	StatementTimeout time.Duration
	// PlacePatience is how long a caller waits for Redis when Postgres has done what it asked for.
	PlacePatience time.Duration
	Log           *slog.Logger
}
