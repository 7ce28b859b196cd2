package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
)

// openControl has this process follow what operators tell the deployment.
func (a *App) openControl(ctx context.Context) error {
	if a.pool != nil {
		a.control = control.NewPostgres(a.pool)
	} else {
		a.control = control.NewRedis(a.redis.client)
	}
	a.follower = control.NewFollower(a.control, a.reconcilePartitions, a.log)
	return a.follower.Refresh(ctx) // what rests must not run in the first second
}

// reconcilePartitions has the queues of the partitions rest that rests says, and no others.
func (a *App) reconcilePartitions(
	ctx context.Context, rests func(partition string) bool,
) ([]control.PartitionState, error) {
	found, err := a.queue.Reconcile(ctx, a.cfg.Partitions, func(partition int) bool {
		return rests(strconv.Itoa(partition))
	})
	states := make([]control.PartitionState, len(found))
	for i, rest := range found {
		name := strconv.Itoa(rest.Partition)
		states[i] = control.PartitionState{Name: name, Outside: rest.Outside, Since: rest.Since.UTC()}
	}
	return states, err
}

// deferred counts deferrals, once there are metrics.
func (a *App) deferred(category, rule string, n int) {
	if a.metrics != nil {
		a.metrics.Deferred(category, rule, n)
	}
}

func (a *App) categoryRests(category string) time.Duration {
	return a.follower.Wait(control.Category, category)
}

func (a *App) channelRests(channel notification.Channel) time.Duration {
	return a.follower.Wait(control.Channel, string(channel))
}

type (
	// Action is what the commands post to the ops pages, Done what comes back.
	Action = ops.Action
	// Done is the answer to an [Action].
	Done = ops.Done
	// Kind is what an action pauses or resumes.
	Kind = control.Kind
)

// actions are what operators can do through the ops pages.
type actions struct{ app *App }

var _ ops.Actions = actions{}

// names are those of the deployment that can be paused.
func (c actions) names(kind control.Kind) []string {
	switch kind {
	case control.Channel:
		return c.app.rules.channels.names()
	case control.Category:
		return slices.Sorted(maps.Keys(c.app.policy.Current().Categories))
	case control.Partition:
	}
	partitions := make([]string, c.app.cfg.Partitions)
	for i := range partitions {
		partitions[i] = strconv.Itoa(i)
	}
	return partitions
}

// Pause implements ops's Actions.
func (c actions) Pause(ctx context.Context, p control.Pause) error {
	if err := control.Check(p.Subject, c.names); err != nil {
		return &ops.RefusalError{Reason: err.Error()}
	}
	if err := c.app.control.Pause(ctx, p); err != nil {
		return err
	}
	c.follow(ctx)
	return nil
}

// Resume implements ops's Actions. What the policy or the settings name no more can be resumed all the same, and so can
// a partition that was paused past pacer.
func (c actions) Resume(ctx context.Context, s control.Subject) error {
	was, err := c.app.control.Resume(ctx, s)
	if err != nil {
		return err
	}
	if partition, err := strconv.Atoi(s.Name); err == nil && s.Kind == control.Partition {
		stopped, err := c.app.queue.Resume(ctx, partition)
		if err != nil && !was {
			return err // whether somebody paused it from outside is not known
		}
		was = was || stopped
	}
	if !was {
		return &ops.RefusalError{Reason: s.String() + " is not paused"}
	}
	c.follow(ctx)
	return nil
}

// follow brings what was written into force in this process without waiting for its next look. The action is taken in
// any case: every process follows what is written.
func (c actions) follow(ctx context.Context) {
	if err := c.app.follower.Refresh(ctx); err != nil {
		c.app.log.WarnContext(ctx, "could not read what is paused after changing it; it comes into force at a later look", "error", err)
	}
}

// Cancel implements ops's Actions.
func (c actions) Cancel(ctx context.Context, id string) error {
	err := c.app.store.Cancel(ctx, id)
	if errors.Is(err, notification.ErrNotWaiting) {
		return &ops.RefusalError{Reason: id + " is " + err.Error()}
	}
	return err
}

// Retry implements ops's Actions: what has failed is accepted anew, with an id of its own, since the old one has ended
// for those who ask for it.
func (c actions) Retry(ctx context.Context, id string) (string, error) {
	view, err := c.app.store.View(ctx, id)
	if err != nil {
		return "", err
	}
	if view.Status != notification.StatusFailed && view.Status != notification.StatusExpired {
		return "", &ops.RefusalError{Reason: fmt.Sprintf("%s is %s: only what has failed or expired is sent again", id,
			view.Status)}
	}
	again := view.Notification
	again.ID, again.CreatedAt = uuid.Must(uuid.NewV7()).String(), time.Time{}
	again.SendAt, again.ExpiresAt = time.Time{}, time.Time{}
	results, err := c.app.intake.Accept(ctx, []intake.Candidate{{Notification: again}})
	if err != nil {
		return "", err
	}
	if err := results[0].Err; err != nil {
		return "", &ops.RefusalError{Reason: fmt.Sprintf("%s can't be sent again: %v", id, err)}
	}
	return again.ID, nil
}

// Note implements ops's Actions.
func (c actions) Note(ctx context.Context, e control.Entry) error { return c.app.control.Note(ctx, e) }

// Trail implements ops's Actions.
func (c actions) Trail(ctx context.Context, limit int) ([]control.Entry, error) {
	return c.app.control.Audit(ctx, limit)
}
