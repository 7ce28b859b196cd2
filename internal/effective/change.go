package effective

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Change is one policy that has taken the place of another.
type Change struct {
	// Before and After are the versions.
	Before, After string
	// SameLimits says that what waits has to wait for as long as before.
	SameLimits bool
	// Over is the time over which users go on who were held by quiet hours that the change ends. Held is how many they
	// are at most; 0 for anybody, because it is night in the policy's own zone.
	Over time.Duration
	Held int
}

// Replaced notes that another policy has come into force, and reports what that changes for what waits.
func (p *Policy) Replaced() Change {
	now, after := p.now(), p.Current()
	p.since.Store(&now)
	before := p.before.Swap(after)
	p.earlier.note(before)
	p.Succeeds(before)
	sameHours := before.TimeZone == after.TimeZone && reflect.DeepEqual(before.QuietHours, after.QuietHours) &&
		reflect.DeepEqual(before.Windows, after.Windows)
	c := Change{
		Before: before.Version(), After: after.Version(),
		SameLimits: sameHours && before.BypassPriority == after.BypassPriority &&
			reflect.DeepEqual(before.Categories, after.Categories),
	}
	if before.QuietHours != nil && !sameHours {
		c.Over, c.Held = p.held(before, throttle.MicrosOf(now))
	}
	return c
}

// held tells over how long users go on whom a policy's quiet hours hold at a moment, and how many they are at most; 0
// for anybody. Users without a zone of their own have the policy's; how many they are nobody knows.
func (p *Policy) held(before *policy.Policy, at throttle.Micros) (over time.Duration, most int) {
	quiet, known := before.QuietHours, map[string]bool{}
	night := func(zone *time.Location) bool {
		closed, ok := known[zone.String()]
		if !ok {
			all := workOut([]calendar.Window{quiet.Hours}, zone, at.Time(), quiet.Spread)
			closed = slices.ContainsFunc(all.closed, func(i throttle.Interval) bool {
				return i.From <= at && at < i.Until.Add(all.spread)
			})
			known[zone.String()] = closed
		}
		return closed
	}
	own, err := calendar.ParseZone(before.TimeZone)
	if err != nil {
		own = time.UTC
	}
	if night(own) {
		return quiet.Spread, 0
	}
	p.Own.Each(func(wish *preferences.Wish, users int) {
		if wish.Zone != nil && nameHours(before, wish, wish.Zone).policy && night(wish.Zone) {
			most += users
		}
	})
	if most > 0 {
		over = quiet.Spread
	}
	return over, most
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
	if err := eachUser(ctx, agendas, hurry); err != nil {
		log.WarnContext(ctx, "could not wake the notifications that wait for new credentials; they are retried within about a minute",
			"error", err)
	}
}

// eachUser does something for every user for whom something waits, some at a time.
func eachUser(ctx context.Context, agendas *agenda.Agendas,
	do func(ctx context.Context, partition int, userIDs ...string) error,
) error {
	for partition := range agendas.Partitions() {
		err := outlook.Of(agendas).EachUser(ctx, partition, func(some []string) error {
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
			return err
		}
	}
	return nil
}
