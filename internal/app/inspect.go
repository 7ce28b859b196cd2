package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// lineShown is how many waiting notifications of a category the user page lists.
const lineShown = 50

// user gathers what is known of a user's categories, for the ops pages.
func (a *App) user(ctx context.Context, userID string) ([]ops.UserCategory, error) {
	var categories []ops.UserCategory
	for name := range a.policy.Current().Categories {
		in, err := a.agendas.Inspect(ctx, dispatch.BacklogOf(userID, name, a.cfg.Partitions), lineShown)
		if err != nil {
			return nil, err
		}
		categories = append(categories, userCategory(name, in))
	}
	slices.SortFunc(categories, func(a, b ops.UserCategory) int {
		if a.Category < b.Category {
			return -1
		}
		return 1
	})
	return categories, nil
}

func userCategory(name string, in agenda.Inspection) ops.UserCategory {
	c := ops.UserCategory{
		Category: name, Allowed: in.Allowed, NextAllowedAt: in.At.Time().UTC(), Waiting: in.Waiting,
		Deferred: in.Deferred,
	}
	if in.Rule != throttle.NoRule {
		c.Reason = in.Rules[in.Rule].Rule.String()
	}
	for _, r := range in.Rules {
		rule := ops.Rule{Rule: r.Rule.String(), Used: r.Used, Remaining: r.Remaining()}
		if r.FreesAt > 0 {
			rule.FreesAt = r.FreesAt.Time().UTC()
		}
		c.Rules = append(c.Rules, rule)
	}
	for _, at := range in.Admitted {
		c.Admitted = append(c.Admitted, at.Time().UTC())
	}
	for _, waiting := range in.Line {
		at := waiting.DeliverAt.Time().UTC()
		c.Line = append(c.Line, ops.InLine{ID: waiting.ID, DeliverAt: at, Ahead: waiting.Ahead})
	}
	return c
}

// gauges reads the deployment's counts for the metrics, and this process's load.
func (a *App) gauges(ctx context.Context) (ops.Gauges, error) {
	partitions, err := a.agendas.Stats(ctx)
	if err != nil {
		return ops.Gauges{}, err
	}
	total := agenda.Sum(partitions)
	g := ops.Gauges{
		States: map[notification.Status]int64{
			notification.StatusQueued: total.Queued, notification.StatusScheduled: total.Scheduled,
			notification.StatusDeferred: total.Deferred, notification.StatusRetrying: total.Retrying,
			notification.StatusSending: total.Sending,
		},
		UsersDeferred: total.UsersDeferred, Paused: a.follower.Paused(), InFlight: a.dispatcher.InFlight(),
		BreakersOpen: map[string]int{}, RedisMemory: a.memory.Ratio(),
	}
	if !total.OldestDeferred.IsZero() {
		g.OldestDeferred = time.Since(total.OldestDeferred)
	}
	for _, partition := range partitions {
		if partition.Away {
			g.PartitionsUnreachable++
			partition.Deferred = -1
		}
		g.DeferredByPartition = append(g.DeferredByPartition, partition.Deferred)
	}
	for _, category := range a.policy.Current().Categories {
		if g.MaxDefer == 0 || category.MaxDefer < g.MaxDefer {
			g.MaxDefer = category.MaxDefer
		}
	}
	for channel, gate := range a.gates {
		g.BreakersOpen[string(channel)] = gate.Open()
	}
	if a.workers != nil {
		g.Concurrency = a.cfg.Concurrency
	}
	if !a.cfg.Setup.Embedded() {
		info, err := a.redis.client.Info(ctx, "memory").Result()
		if err != nil {
			return ops.Gauges{}, fmt.Errorf("ask Redis for its eviction policy: %w", err)
		}
		rule := evictionPolicy(info)
		g.Evicts = rule != "" && rule != "noeviction"
	}
	return g, nil
}

// counts reads the counts of every partition, and of all together; the totals are those of the store that is the store.
func (a *App) counts(ctx context.Context) (partitions []agenda.PartitionStats, total agenda.PartitionStats, err error) {
	if a.postgres != nil {
		return a.postgres.Stats(ctx)
	}
	partitions, err = a.agendas.Stats(ctx)
	return partitions, agenda.Sum(partitions), err
}

// Delivered counts the deployment's deliveries and the attempts at them.
func (a *App) Delivered(ctx context.Context) (delivered, attempts int64, err error) {
	_, total, err := a.counts(ctx)
	return total.Delivered, total.Attempts, err
}

// Pulls counts how often a worker of the deployment took a task off the queue.
func (a *App) Pulls(ctx context.Context) (int64, error) {
	_, total, err := a.counts(ctx)
	return total.Pulls, err
}
