// Package embedded runs Redis inside the process, for the set-up without any server: miniredis, with everything in
// memory and nothing left after a restart.
package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// sweepInterval is how often keys whose time has come are removed: miniredis does not do that by itself, and each sweep
// walks every key that has one. A key may go so much before its time, so whoever needs it until a moment must let it
// live that much longer.
const sweepInterval = 500 * time.Millisecond

// patience is how long a reply may take.
const patience = time.Minute

// Redis is an in-process Redis.
type Redis struct {
	server *miniredis.Miniredis
	client *redis.Client
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// Start starts one. It runs until Close, whatever becomes of the context.
func Start(ctx context.Context) *Redis {
	server := miniredis.NewMiniRedis()
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Redis{
		server: server, stop: stop,
		client: redis.NewClient(&redis.Options{
			Addr:   "127.0.0.1:1", // never dialled: the connections are in memory
			Dialer: Dialer(server),
			// Nothing gets lost in memory. A late reply means a busy machine, and to give up would only ask it twice.
			ReadTimeout:              patience,
			WriteTimeout:             patience,
			PoolSize:                 32,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}),
	}
	r.done.Go(func() { r.expireKeys(ctx) })
	return r
}

// Client is connected to it. It is closed with it.
func (r *Redis) Client() *redis.Client { return r.client }

// Close ends it; everything in it is gone.
func (r *Redis) Close() error {
	r.stop()
	r.done.Wait()
	err := r.client.Close()
	r.server.Close()
	if err != nil {
		return fmt.Errorf("close the client of the in-process Redis: %w", err)
	}
	return nil
}

// expireKeys lets the time of the keys pass as measured.
func (r *Redis) expireKeys(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		r.age(now.Sub(last))
		last = now
	}
}

// age lets time pass for all keys alike, those of this very moment included: each may go that much too early. So it is
// never more than a sweep's interval, however long the process was kept from sweeping; what is old goes a little later.
func (r *Redis) age(elapsed time.Duration) { r.server.FastForward(min(elapsed, sweepInterval)) }
