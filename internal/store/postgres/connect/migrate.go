package connect

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/migrations"
)

// Migrate runs a step of the migrations on a database. No error shows the password.
func Migrate(ctx context.Context, address string, do func(context.Context, string) error) error {
	if _, err := pgx.ParseConfig(address); err != nil {
		return refusal.New("DATABASE_URL can't be read: %s", withoutPassword(err, address))
	}
	if err := do(ctx, address); err != nil {
		if encoding, ok := errors.AsType[*migrations.EncodingError](err); ok {
			return refusal.New("DATABASE_URL can't be used: %v", encoding)
		}
		return fmt.Errorf("migrate: %s", withoutPassword(err, address))
	}
	return nil
}
