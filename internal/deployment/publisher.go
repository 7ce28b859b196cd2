package deployment

import (
	"context"
	"log/slog"
	"time"

	"github.com/pacer-notify/pacer/internal/beat"
)

const (
	// publishPause lies between a try to publish the policy and the next, and doubles up to publishPauseMost.
	publishPause, publishPauseMost = time.Second, 30 * time.Second
	// publishTimeout bounds a try.
	publishTimeout = 5 * time.Second
)

// Publisher publishes the policy that this process has in force when another has come into force, for attached
// processes. While Redis is away it tries again. It also looks whether Redis still has what was published.
type Publisher struct {
	// publish publishes the policy that is in force when it is called: the newest wins.
	publish func(context.Context) error
	// look publishes again what Redis has lost.
	look    func(context.Context) error
	log     *slog.Logger
	changed chan struct{}
}

// NewPublisher makes a Publisher that calls publish, and look once a second.
func NewPublisher(publish, look func(context.Context) error, log *slog.Logger) *Publisher {
	return &Publisher{publish: publish, look: look, log: log, changed: make(chan struct{}, 1)}
}

// Publisher publishes the deployment's policy.
func (d *Deployment) Publisher() *Publisher {
	return NewPublisher(d.publishing.policy, d.publishing.look, d.cfg.Log)
}

// Changed says that another policy is in force. It returns at once.
func (p *Publisher) Changed() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Run publishes what changes, and what is lost, until ctx ends.
func (p *Publisher) Run(ctx context.Context) {
	ticker := beat.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
			p.publishUntilDone(ctx)
		case <-ticker.C:
			ticker.Next()
			if err := p.try(ctx, p.look); err != nil && ctx.Err() == nil {
				p.log.DebugContext(ctx, "could not check what is published; trying again at the next check", "error", err)
			}
		}
	}
}

// publishUntilDone tries until the policy is published, or ctx ends: then the next start publishes.
func (p *Publisher) publishUntilDone(ctx context.Context) {
	for pause, failed := publishPause, false; ; pause, failed = min(2*pause, publishPauseMost), true {
		err := p.try(ctx, p.publish)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && failed:
			p.log.InfoContext(ctx, "published the policy; producers that write to the queue themselves now use it")
			return
		case err == nil:
			return
		case !failed:
			p.log.WarnContext(ctx,
				"could not publish the policy; producers that write to the queue themselves still use the old one; retrying",
				"error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (*Publisher) try(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return do(ctx)
}
