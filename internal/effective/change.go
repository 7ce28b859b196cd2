package effective

import (
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
)

// Replaced notes that another policy has come into force, and tells whether its limits differ: notifications may have
// to wait shorter or longer than under the one before.
func (p *Policy) Replaced() (limitsDiffer bool) {
	now, after := time.Now(), p.Current()
	p.since.Store(&now)
	before := p.before.Swap(after)
	return before.BypassPriority != after.BypassPriority || !reflect.DeepEqual(before.Categories, after.Categories)
}

// Since is when the policy was last replaced; zero when it never was.
func (p *Policy) Since() time.Time {
	if since := p.since.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// wakePause lies between some hundred users and the next, so that a change of the policy does not flood the queue.
const wakePause = 20 * time.Millisecond

// Reschedule wakes every user who has waiting notifications, so that their agendas are decided again under the settings
// in effect, and returns how many users it woke. Every process with workers does it after a change: a wake-up that
// comes for nothing costs one pull.
func Reschedule(ctx context.Context, agendas *agenda.Agendas) (users int, err error) {
	return eachUser(ctx, agendas, agendas.Wake)
}

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
