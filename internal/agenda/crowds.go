package agenda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// crowdsRead is how many backlogs of a partition are read to find the largest crowds: of those that a limit
	// blocks, and of those that quiet hours block. Of the former these are whose first waits longest, of the latter
	// whose first goes soonest.
	crowdsRead = 250
	// lastRead is of how many backlogs the slot of the last is asked for: of those that may take longest. A script
	// plans each.
	lastRead = 3
)

// Crowds are the users' categories with deferred notifications.
type Crowds struct {
	// Largest are those with the most, the largest first.
	Largest []stats.Crowd
	// Drained is when the last of all that is deferred now will have gone, by the limits in force; zero when nothing is
	// deferred.
	Drained time.Time
	// Exact is false when not all of them were read: in a partition with hundreds of blocked backlogs only those whose
	// first waits longest are, and in one that can't be reached none. Then there may be larger ones, and Drained is the
	// earliest moment that it may be.
	Exact bool
}

// crowd is a blocked backlog: how many in it are deferred, and when the first of them may go.
type crowd struct {
	stats.Crowd
	partition int
	next      throttle.Micros
}

// Crowds returns the n backlogs with the most deferred notifications, and when all of them will have drained.
func (a *Agendas) Crowds(ctx context.Context, n int) (Crowds, error) {
	all, exact := a.readCrowds(ctx)
	found := Crowds{Exact: exact}
	var err error
	if found.Drained, err = a.drained(ctx, all); err != nil {
		return Crowds{}, err
	}
	slices.SortFunc(all, func(a, b crowd) int {
		return cmp.Or(cmp.Compare(b.Deferred, a.Deferred), cmp.Compare(a.UserID, b.UserID),
			cmp.Compare(a.Category, b.Category))
	})
	for _, c := range all[:min(n, len(all))] {
		found.Largest = append(found.Largest, c.Crowd)
	}
	return found, nil
}

// readCrowds reads the blocked backlogs, up to a number in each partition; exact reports whether that is all of them.
func (a *Agendas) readCrowds(ctx context.Context) (all []crowd, exact bool) {
	names, sizes := make([][]*redis.StringSliceCmd, a.Partitions()), make([][]*redis.IntCmd, a.Partitions())
	pipe := a.Client.Pipeline()
	for partition, prefix := range a.Prefixes() {
		for _, set := range []string{"o", "quiet"} {
			names[partition] = append(names[partition], pipe.ZRange(ctx, prefix+set, 0, crowdsRead-1))
			sizes[partition] = append(sizes[partition], pipe.ZCard(ctx, prefix+set))
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	exact = true
	for partition := range a.Prefixes() {
		for set := range names[partition] {
			if names[partition][set].Err() != nil || sizes[partition][set].Err() != nil {
				exact = false
				continue
			}
			exact = exact && sizes[partition][set].Val() <= crowdsRead
			some, err := a.crowdsOf(ctx, partition, names[partition][set].Val())
			if err != nil {
				exact = false
				continue
			}
			all = append(all, some...)
		}
	}
	return all, exact
}

// crowdsOf counts what is deferred in some backlogs of a partition.
func (a *Agendas) crowdsOf(ctx context.Context, partition int, names []string) ([]crowd, error) {
	if len(names) == 0 {
		return nil, nil
	}
	prefix, pipe := a.Prefixes()[partition], a.Client.Pipeline()
	waiting, agendaFields := make([]*redis.IntCmd, len(names)), make([]*redis.StringCmd, len(names))
	for i, name := range names {
		category, user, _ := strings.Cut(name, ":")
		waiting[i], agendaFields[i] = pipe.ZCard(ctx, prefix+"w:"+name), pipe.HGet(ctx, prefix+"a:"+user, category)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("count what waits in backlogs of partition %d: %w", partition, err)
	}
	var crowds []crowd
	for i, name := range names {
		category, user, _ := strings.Cut(name, ":")
		field := agendaFields[i].Val()
		if deferred := deferredOf(field, waiting[i].Val()); deferred > 0 {
			next, by := blockedBy(field)
			crowds = append(crowds, crowd{
				Crowd: stats.Crowd{
					UserID: user, Category: category, Deferred: int64(deferred),
					Reason: player.ReasonOf(a.cfg.Settings(user, category).Plan, by), Until: next.Time().UTC(),
				},
				partition: partition, next: next,
			})
		}
	}
	return crowds, nil
}

// blockedBy reads until when a backlog is blocked, and by what, from its field in its agenda: "next rule …".
func blockedBy(field string) (next throttle.Micros, by throttle.Cause) {
	at, rest, _ := strings.Cut(field, " ")
	number, _, _ := strings.Cut(rest, " ")
	moment, _ := strconv.ParseInt(at, 10, 64) // the scripts write nothing else
	rule, _ := strconv.ParseInt(number, 10, 64)
	return throttle.Micros(moment), throttle.CauseOf(rule)
}

// drained returns when the last of all crowds goes. The limits and the first slot of each bound its last slot from both
// sides. Only those that may be last are planned to the end.
func (a *Agendas) drained(ctx context.Context, all []crowd) (time.Time, error) {
	earliest, latest := make(map[string]throttle.Micros, len(all)), make(map[string]throttle.Micros, len(all))
	last := throttle.Micros(0)
	for _, c := range all {
		name := c.Category + ":" + c.UserID
		earliest[name], latest[name] = c.lastSlot(a.cfg.Settings(c.UserID, c.Category).Plan)
		last = max(last, earliest[name])
	}
	slices.SortFunc(all, func(a, b crowd) int {
		return cmp.Compare(latest[b.Category+":"+b.UserID], latest[a.Category+":"+a.UserID])
	})
	for _, c := range all[:min(lastRead, len(all))] {
		if latest[c.Category+":"+c.UserID] <= last {
			break
		}
		at, err := a.lastOf(ctx, c)
		if err != nil {
			return time.Time{}, err
		}
		last = max(last, at)
	}
	if last == 0 {
		return time.Time{}, nil
	}
	return last.Time(), nil
}

// lastSlot returns between which moments the slot of the last of a crowd lies, by its first slot and each rule's pace.
func (c *crowd) lastSlot(plan throttle.Plan) (earliest, latest throttle.Micros) {
	earliest, latest = c.next, c.next
	for _, rule := range plan.Rules {
		if rule.Channels != "" { // it may not count them
			continue
		}
		windows := (c.Deferred - 1) / int64(rule.Max)
		if rule.Period > 0 { // the first may be nearly over, and others are at least half as long
			earliest = max(earliest, c.next.Add(time.Duration(max(0, windows-1))*rule.Per/2))
		} else {
			earliest = max(earliest, c.next.Add(time.Duration(windows)*rule.Per))
		}
		windows = (c.Deferred - 1) / int64(rule.MaxFor(int(notification.PriorityLow)))
		latest = max(latest, c.next.Add(time.Duration(windows+1)*rule.Per))
	}
	return earliest, latest
}

// lastOf returns the slot of the last of a backlog; 0 when it has drained meanwhile.
func (a *Agendas) lastOf(ctx context.Context, c crowd) (throttle.Micros, error) {
	line := a.Prefixes()[c.partition] + "w:" + c.Category + ":" + c.UserID
	ids, err := a.Client.ZRange(ctx, line, -1, -1).Result()
	if err != nil {
		return 0, fmt.Errorf("read the last of a backlog of partition %d: %w", c.partition, err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	backlog := dispatch.Backlog{Partition: c.partition, UserID: c.UserID, Category: c.Category}
	state := &State{ID: ids[0], Backlog: backlog}
	if err := a.findPlace(ctx, state); err != nil {
		return 0, fmt.Errorf("find the place of notification %s: %w", ids[0], err)
	}
	if state.DeliverAt.IsZero() {
		return 0, nil
	}
	return throttle.MicrosOf(state.DeliverAt), nil
}
