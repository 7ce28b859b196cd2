package outlook

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

	"github.com/pacer-notify/pacer/internal/agenda"
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
	// lastPlayed is how many crowds are played to their end: those that may last longest. mostStandIns is how many may
	// stand in for what is not read of one.
	lastPlayed   = 3
	mostStandIns = 100_000
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
	found, err := Crowds{}, error(nil)
	var whole bool
	if found.Drained, whole, err = a.drained(ctx, all); err != nil {
		return Crowds{}, err
	}
	found.Exact = exact && whole
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
		for _, set := range []string{"o", "opens"} {
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
			settings := a.SettingsOf(user, category)
			crowds = append(crowds, crowd{
				Crowd: stats.Crowd{
					UserID: user, Category: category, Deferred: int64(deferred),
					Reason: player.ReasonOf(settings.Plan, by), Until: next.Time().UTC(),
					Unbounded: deferred > agenda.CrowdSize && len(settings.Overflow) == 0,
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

// drained returns when the last of all crowds goes. Only those are played that may last longest, by the pace of their
// limits.
func (a *Agendas) drained(ctx context.Context, all []crowd) (last time.Time, exact bool, err error) {
	slices.SortFunc(all, func(x, y crowd) int {
		return cmp.Compare(y.slowest(a.planOf(y.UserID, y.Category)), x.slowest(a.planOf(x.UserID, x.Category)))
	})
	exact = true
	for _, c := range all[:min(lastPlayed, len(all))] {
		at, whole, err := a.lastOf(ctx, c)
		if err != nil {
			return time.Time{}, false, err
		}
		if exact = exact && whole; at.After(last) {
			last = at
		}
	}
	return last, exact, nil
}

// slowest is about when the last of a crowd goes at the latest.
func (c *crowd) slowest(plan throttle.Plan) throttle.Micros {
	latest := c.next
	for _, rule := range plan.Rules {
		windows := (c.Deferred-1)/int64(rule.MaxFor(int(notification.PriorityLow))) + 1
		latest = max(latest, c.next.Add(time.Duration(windows)*rule.Per))
	}
	return latest
}

// lastOf plays a crowd to its end, and returns when the last of it goes; zero when it has drained meanwhile.
func (a *Agendas) lastOf(ctx context.Context, c crowd) (last time.Time, exact bool, err error) {
	l, err := a.look(ctx, c.UserID, nil, []string{c.Category})
	if err != nil {
		return time.Time{}, false, err
	}
	l.standIns = mostStandIns
	left := l.left[c.Category].count + len(l.notes)
	at := throttle.Micros(0)
	l.Hear(func(n *player.Note) {
		if n.Category != c.Category {
			return
		}
		if left--; n.Status == notification.StatusSending {
			at = max(at, n.Admitted)
		}
	})
	done := func() bool { return left <= 0 }
	if err := l.Play(done); err != nil || at == 0 {
		return time.Time{}, err == nil, err
	}
	return at.Time(), done(), nil
}

// CountWaiting returns how many wait in some backlogs.
func (a *Agendas) CountWaiting(ctx context.Context, backlogs []dispatch.Backlog) (map[dispatch.Backlog]int, error) {
	sizes, pipe := make([]*redis.IntCmd, len(backlogs)), a.Client.Pipeline()
	for i, b := range backlogs {
		sizes[i] = pipe.ZCard(ctx, a.PrefixOf(b.UserID)+"w:"+b.Category+":"+b.UserID)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("count what waits in some backlogs: %w", err)
	}
	waiting := make(map[dispatch.Backlog]int, len(backlogs))
	for i, b := range backlogs {
		waiting[b] = int(sizes[i].Val())
	}
	return waiting, nil
}
