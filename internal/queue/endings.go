package queue

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/script"
)

var (
	//go:embed finish.lua
	finishSource string
	//go:embed archive.lua
	archiveSource string

	finishScript  = script.NewWhenFull(finishSource)
	archiveScript = script.NewWhenFull(archiveSource)
)

const (
	// linger is how long an acknowledgement waits for others: nobody waits for it.
	linger = 10 * time.Millisecond
	// finishAtOnce is how many are acknowledged at once at most.
	finishAtOnce = 64
	// processedLife is how long asynq keeps the counter of a day.
	processedLife = 90 * 24 * time.Hour
	// archiveSize is how many tasks asynq keeps that can't be worked.
	archiveSize = 10_000
)

// ending is how a run of a task ended.
type ending struct {
	id string
	// again is the second at which it comes again, since the epoch; 0 when it is done.
	again int64
}

// endingOf puts a deferral to shortly before its slot, and anything else that went wrong (the record could not be reached)
// to a moment later.
func endingOf(id string, err error, now time.Time) ending {
	if err == nil {
		return ending{id: id}
	}
	if deferral, ok := errors.AsType[*dispatch.DeferralError](err); ok {
		return ending{id, max(1, deferral.Until.Add(-lead).Unix())}
	}
	return ending{id, now.Add(time.Second).Unix()}
}

// acknowledge tells Redis of the endings, many at once, until the last.
func (l *lane) acknowledge(ctx context.Context) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for {
		select {
		case first := <-l.endings:
			l.finish(ctx, l.gather(first, timer))
		case <-l.last:
			for len(l.endings) > 0 {
				l.finish(ctx, l.gather(<-l.endings, timer))
			}
			return
		}
	}
}

// gather waits a little for more to come.
func (l *lane) gather(first ending, timer *time.Timer) []ending {
	endings := append(make([]ending, 0, finishAtOnce), first)
	timer.Reset(linger)
	for len(endings) < finishAtOnce {
		select {
		case next := <-l.endings:
			endings = append(endings, next)
		case <-timer.C:
			return endings
		case <-l.last:
			if len(l.endings) == 0 {
				return endings
			}
		}
	}
	return endings
}

// finish tells Redis until it answers: a task that is not acknowledged comes a second time. Told twice, it is as once.
func (l *lane) finish(ctx context.Context, endings []ending) {
	now := time.Now().UTC()
	ids := make([]string, len(endings))
	args := make([]any, 0, 2+2*len(endings))
	args = append(args, now.Format(time.DateOnly), now.Add(processedLife).Unix())
	for i, e := range endings {
		ids[i] = e.id
		args = append(args, e.id, e.again)
	}
	l.insist(ctx, "acknowledge", func() error {
		return finishScript.Run(ctx, l.conn, l.keys, args...).Err()
	})
	l.left(ids...)
}

// putAside archives a task that can never be worked, with the reason.
func (l *lane) putAside(ctx context.Context, t task, reason error) {
	now := time.Now().Unix()
	// In asynq's message the last of a field counts.
	message := protowire.AppendTag([]byte(t.message), fieldError, protowire.BytesType)
	message = protowire.AppendString(message, reason.Error())
	message = protowire.AppendTag(message, fieldFailedAt, protowire.VarintType)
	message = protowire.AppendVarint(message, uint64(now))
	l.log.WarnContext(ctx, "a task of the queue is no tick; it is archived", "lane", l.number, "error", reason)
	l.insist(ctx, "archive", func() error {
		return archiveScript.Run(ctx, l.conn, l.keys, t.id, message, now, archiveSize).Err()
	})
	l.left(t.id)
}

// insist tries until it succeeds or the process has no time left.
func (l *lane) insist(ctx context.Context, what string, try func() error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := try()
		if err == nil {
			return
		}
		l.log.WarnContext(ctx, "tell the queue how ticks ended; it is tried again", "step", what, "lane", l.number, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
