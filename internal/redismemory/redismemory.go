// Package redismemory watches how full the Redis servers of a deployment are. It stops accepting while there is still
// memory to deliver what waits.
//
//	used / maxmemory    0 ........ 0.85 ........ 0.90 ........ 1
//	accepting           yes        as before     no            no
//	delivering          yes        yes           yes           no grants; settling goes on
package redismemory

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/beat"
)

const (
	// highMark is the part of maxmemory from which on nothing more is taken on; it is again once less than lowMark is
	// used.
	highMark, lowMark = 0.90, 0.85
	// interval between two looks. In half a second a single Redis takes on some megabytes at most.
	interval = 500 * time.Millisecond
	// lookTimeout bounds a look.
	lookTimeout = 5 * time.Second
)

// Watch looks at the memory of the servers. Its methods may be called from any goroutine.
type Watch struct {
	client redis.UniversalClient
	log    *slog.Logger

	full  atomic.Bool
	ratio atomic.Uint64 // in millionths
}

// New makes a Watch; nothing is full before its first [Watch.Look].
func New(client redis.UniversalClient, log *slog.Logger) *Watch {
	return &Watch{client: client, log: log}
}

// Full reports whether nothing more is to be taken on. A nil Watch is of a Redis without a limit.
func (w *Watch) Full() bool { return w != nil && w.full.Load() }

// Ratio is how much of its memory the fullest server uses, 0 when none has a limit.
func (w *Watch) Ratio() float64 {
	if w == nil {
		return 0
	}
	return float64(w.ratio.Load()) / 1e6
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	ticker := beat.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := w.Look(ctx); err != nil && ctx.Err() == nil {
			w.log.DebugContext(ctx, "could not read how much memory Redis uses; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Next()
		}
	}
}

// Look asks every server once. While one does not respond, the last known ratio stays, unless another is full.
func (w *Watch) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var mu sync.Mutex
	fullest := 0.0
	err := eachServer(ctx, w.client, func(ctx context.Context, server redis.Cmdable) error {
		info, err := server.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		fullest = max(fullest, RatioOf(info))
		return nil
	})
	if err != nil && fullest < w.Ratio() {
		return err
	}
	w.note(ctx, fullest)
	return err
}

func eachServer(ctx context.Context, client redis.UniversalClient,
	ask func(context.Context, redis.Cmdable) error,
) error {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return ask(ctx, client)
	}
	var mu sync.Mutex
	var faults []error
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		if err := ask(ctx, server); err != nil { // the others are asked all the same
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, err)
		}
		return nil
	})
	return errors.Join(append(faults, err)...)
}

// note keeps what a look found, and tells of a change.
func (w *Watch) note(ctx context.Context, ratio float64) {
	w.ratio.Store(uint64(ratio * 1e6))
	switch was := w.full.Load(); {
	case !was && ratio >= highMark:
		w.full.Store(true)
		w.log.WarnContext(ctx, "Redis is almost out of memory; taking on nothing new until it has room again", "used",
			percent(ratio))
	case was && ratio < lowMark:
		w.full.Store(false)
		w.log.InfoContext(ctx, "Redis has room again", "used", percent(ratio))
	}
}

func percent(ratio float64) string { return strconv.Itoa(int(ratio*100)) + " %" }

// RatioOf reads how much of its memory a server uses out of its INFO, 0 when it has no limit. What the server does not
// count against its limit, such as buffers for replicas, does not count here.
func RatioOf(info string) float64 {
	var used, uncounted, limit float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "used_memory":
			used = number
		case "mem_not_counted_for_evict":
			uncounted = number
		case "maxmemory":
			limit = number
		}
	}
	if limit == 0 {
		return 0
	}
	return max(0, used-uncounted) / limit
}
