package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/script"
)

//go:embed reserve.lua
var reserveSource string

// reserveScript claims an idempotency key, see reserve.lua.
var reserveScript = script.New(reserveSource)

// acceptTime is how long a request may take to be accepted before a repeat of it may take over.
const acceptTime = 10 * time.Second

// Reserve implements [intake.Store].
func (r *Store) Reserve(ctx context.Context, key, fingerprint, id string,
	life time.Duration,
) (intake.Reservation, error) {
	args := []any{
		fingerprint, id, strconv.FormatInt(acceptTime.Microseconds(), 10),
		strconv.FormatInt(life.Milliseconds(), 10),
	}
	reply, err := reserveScript.Run(ctx, r.client, []string{r.reservationKey(key)}, args...).StringSlice()
	if err != nil {
		return intake.Reservation{}, fmt.Errorf("reserve an idempotency key: %w", err)
	}
	if len(reply) != 2 {
		return intake.Reservation{}, fmt.Errorf("reserve an idempotency key: the reply has %d fields", len(reply))
	}
	outcome, ok := map[string]intake.Claim{
		"new": intake.ClaimNew, "done": intake.ClaimDone, "busy": intake.ClaimBusy, "other": intake.ClaimOther,
	}[reply[0]]
	if !ok {
		return intake.Reservation{}, fmt.Errorf("reserve an idempotency key: unknown reply %q", reply[0])
	}
	return intake.Reservation{Claim: outcome, ID: reply[1]}, nil
}

// Reserved implements [intake.Store].
func (r *Store) Reserved(ctx context.Context, key, fingerprint string) (intake.Reservation, error) {
	held, err := r.client.HGetAll(ctx, r.reservationKey(key)).Result()
	if err != nil {
		return intake.Reservation{}, fmt.Errorf("look up an idempotency key: %w", err)
	}
	_, accepting := held["p"]
	switch {
	case held["i"] == "":
		return intake.Reservation{Claim: intake.ClaimNew}, nil
	case held["f"] != fingerprint:
		return intake.Reservation{Claim: intake.ClaimOther, ID: held["i"]}, nil
	case accepting: // or given up: only Reserve asks the clock, which takes it over then
		return intake.Reservation{Claim: intake.ClaimBusy, ID: held["i"]}, nil
	}
	return intake.Reservation{Claim: intake.ClaimDone, ID: held["i"]}, nil
}

// Commit implements [intake.Store].
func (r *Store) Commit(ctx context.Context, key string) error {
	if err := r.client.HDel(ctx, r.reservationKey(key), "p").Err(); err != nil {
		return fmt.Errorf("commit an idempotency key: %w", err)
	}
	return nil
}

func (r *Store) reservationKey(key string) string {
	return agenda.PartitionPrefix(r.agendas.PartitionOf(key)) + "k:" + key
}
