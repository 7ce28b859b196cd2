package ops

import (
	"context"
	"log/slog"
	"strconv"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Operator carries out the actions of operators.
type Operator struct {
	Control  control.Store
	Follower *control.Follower
	// Queue resumes a partition's queue, whoever paused it, and reports whether it was paused.
	Queue interface {
		Resume(ctx context.Context, partition int) (bool, error)
	}
	// Many changes notifications.
	Many *desk.Many
	// Channels and Categories name those of the deployment; Partitions counts its partitions.
	Channels, Categories func() []string
	Partitions           int
	Log                  *slog.Logger
}

var _ Actions = (*Operator)(nil)

// names lists what the deployment has of a kind that can be paused.
func (o *Operator) names(kind control.Kind) []string {
	switch kind {
	case control.Channel:
		return o.Channels()
	case control.Category:
		return o.Categories()
	case control.Partition:
	}
	partitions := make([]string, o.Partitions)
	for i := range partitions {
		partitions[i] = strconv.Itoa(i)
	}
	return partitions
}

// Pause implements [Actions].
func (o *Operator) Pause(ctx context.Context, p control.Pause) error {
	if err := control.Check(p.Subject, o.names); err != nil {
		return &RefusalError{Reason: err.Error()}
	}
	if err := o.Control.Pause(ctx, p); err != nil {
		return err
	}
	o.follow(ctx)
	return nil
}

// Resume implements [Actions]. It also resumes a channel or category that the settings or the policy no longer name,
// and a partition that was paused with asynq's own tools.
func (o *Operator) Resume(ctx context.Context, s control.Subject) error {
	was, err := o.Control.Resume(ctx, s)
	if err != nil {
		return err
	}
	if partition, err := strconv.Atoi(s.Name); err == nil && s.Kind == control.Partition {
		stopped, err := o.Queue.Resume(ctx, partition)
		if err != nil && !was {
			return err // it is unknown whether the partition was paused from outside
		}
		was = was || stopped
	}
	if !was {
		return &RefusalError{Reason: s.String() + " is not paused"}
	}
	o.follow(ctx)
	return nil
}

// follow makes this process obey a change at once instead of at its next look. The change holds even if this fails,
// since every process follows what the store says.
func (o *Operator) follow(ctx context.Context) {
	if err := o.Follower.Refresh(ctx); err != nil {
		o.Log.WarnContext(ctx,
			"could not read the pauses after a change; this process follows the change at its next check", "error", err)
	}
}

// Cancel implements [Actions].
func (o *Operator) Cancel(ctx context.Context, id string) error { return o.Many.Cancel(ctx, id) }

// Change implements [Actions].
func (o *Operator) Change(ctx context.Context, id string, c notification.Change) error {
	return o.Many.Change(ctx, id, c)
}

// Retry implements [Actions].
func (o *Operator) Retry(ctx context.Context, id string) (string, error) {
	return o.Many.Retry(ctx, id)
}

// Move implements [Actions].
func (o *Operator) Move(ctx context.Context, id, channel string) (string, error) {
	return o.Many.Move(ctx, id, channel)
}

// Note implements [Actions].
func (o *Operator) Note(ctx context.Context, e control.Entry) error { return o.Control.Note(ctx, e) }

// AuditLog implements [Actions].
func (o *Operator) AuditLog(ctx context.Context, limit int) ([]control.Entry, error) {
	return o.Control.Audit(ctx, limit)
}
