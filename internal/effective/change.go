package effective

import (
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Change is one policy that has taken the place of another.
type Change struct {
	// Before and After are the versions.
	Before, After string
	// SameLimits says that what waits has to wait for as long as before.
	SameLimits bool
	// Over is the time over which users go on who were held by quiet hours that the change ends.
	Over time.Duration
}

// Replaced notes that another policy has come into force, and tells what that changes for what waits.
func (p *Policy) Replaced() Change {
	now, after := time.Now(), p.Current()
	p.since.Store(&now)
	before := p.before.Swap(after)
	sameHours := before.TimeZone == after.TimeZone && reflect.DeepEqual(before.QuietHours, after.QuietHours) &&
		reflect.DeepEqual(before.Windows, after.Windows)
	c := Change{
		Before: before.Version(), After: after.Version(),
		SameLimits: sameHours && before.BypassPriority == after.BypassPriority &&
			reflect.DeepEqual(before.Categories, after.Categories),
	}
	if quiet := before.QuietHours; quiet != nil && !sameHours {
		zone, err := calendar.ParseZone(before.TimeZone)
		if err != nil {
			zone = time.UTC
		}
		closed := workOut([]calendar.Window{quiet.Hours}, zone, now, quiet.Spread).closed
		if at := throttle.MicrosOf(now); closed.Open(at) > at {
			c.Over = quiet.Spread
		}
	}
	return c
}

// Since is when the policy was last replaced; zero when it never was.
func (p *Policy) Since() time.Time {
	if since := p.since.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// wakePause lies between some hundred users and the next, so that this does not flood the queue.
const wakePause = 20 * time.Millisecond

// hurryTimeout bounds how long what waits is hurried. What is left waits for a minute more at most.
const hurryTimeout = 30 * time.Second

// Hurry has everything tried again at once that waits because its channel's credentials were refused. Every process
// with workers does it when it has new ones. For allow see [agenda.Agendas.Hurry].
func Hurry(ctx context.Context, agendas *agenda.Agendas, allow func(context.Context, []string) error,
	log *slog.Logger,
) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hurryTimeout)
	defer cancel()
	hurry := func(ctx context.Context, partition int, userIDs ...string) error {
		return agendas.Hurry(ctx, partition, allow, userIDs...)
	}
	if _, err := eachUser(ctx, agendas, hurry); err != nil {
		log.WarnContext(ctx, "could not hurry what waits for the new credentials; it is tried again within a minute or so",
			"error", err)
	}
}

// eachUser does something for every user for whom something waits, some at a time.
func eachUser(ctx context.Context, agendas *agenda.Agendas,
	do func(ctx context.Context, partition int, userIDs ...string) error,
) (users int, err error) {
	for partition := range agendas.Partitions() {
		err := agendas.EachUser(ctx, partition, func(some []string) error {
			users += len(some)
			if err := do(ctx, partition, some...); err != nil {
				return err
			}
			select {
			case <-time.After(wakePause):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			return users, err
		}
	}
	return users, nil
}
