package effective

import (
	"context"
	"reflect"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/policy"
)

// LimitsDiffer tells whether notifications may have to wait shorter or longer than before.
func LimitsDiffer(before, after *policy.Policy) bool {
	return before.BypassPriority != after.BypassPriority || !reflect.DeepEqual(before.Categories, after.Categories)
}

// wakePause lies between some hundred users that are rescheduled and the next: a change of the policy is not a flood.
const wakePause = 20 * time.Millisecond

// Reschedule has the agenda of every user with waiting notifications looked at again, under the settings now in effect,
// and gives how many users that were. Every process with workers does it after a change: a wake-up that comes for
// nothing costs one pull.
func Reschedule(ctx context.Context, agendas *agenda.Agendas) (users int, err error) {
	for partition := range agendas.Partitions() {
		err := agendas.EachUser(ctx, partition, func(some []string) error {
			users += len(some)
			if err := agendas.Wake(ctx, partition, some...); err != nil {
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
