package outlook

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// forecastUsers is how many users a forecast reads, over all partitions; of each partition at least leastUsers.
	forecastUsers = 500
	leastUsers    = 4
	// forecastLater is how many it reads of what is later for one user, forecastBacklogs of how many categories.
	forecastLater    = 32
	forecastBacklogs = 32
)

// sampledUser is a user whose agenda is read for a forecast, and for how many users it stands.
type sampledUser struct {
	partition int
	id        string
	weight    float64
	blocked   []blocked
	later     []laterOne
}

// blocked is a backlog that waits for a moment.
type blocked struct {
	category, field string
	next            throttle.Micros
	rule            int64
	size            *redis.IntCmd
}

// laterOne is a notification that is later, and for how many it stands.
type laterOne struct {
	id     string
	due    throttle.Micros
	weight float64
	about  *redis.SliceCmd // its category, its state, and until when its provider is waited for
}

// category is that of the notification; empty when it was forgotten meanwhile.
func (l *laterOne) category() string {
	about := l.about.Val()
	if len(about) == 0 || about[0] == nil {
		return ""
	}
	name, _ := about[0].(string)
	return name
}

// reason is what it is held for.
func (l *laterOne) reason() string {
	switch about := l.about.Val(); {
	case about[2] != nil:
		return stats.HeldForProvider
	case about[1] == keyspace.States.Scheduled:
		return stats.HeldBySchedule
	}
	return stats.HeldForRetry
}

// sample is some members of a sorted set, or all of them; each stands for weight members.
type sample struct {
	replies []*redis.ZSliceCmd
	weight  float64
}

// sampleOf asks for at most that many members of a set of a size, evenly over all its ranks.
func sampleOf(ctx context.Context, pipe redis.Pipeliner, key string, size, most int64) sample {
	if size <= most {
		return sample{replies: []*redis.ZSliceCmd{pipe.ZRangeWithScores(ctx, key, 0, most-1)}, weight: 1}
	}
	s := sample{weight: float64(size) / float64(most)}
	for i := range most {
		rank := (2*i + 1) * size / (2 * most)
		s.replies = append(s.replies, pipe.ZRangeWithScores(ctx, key, rank, rank))
	}
	return s
}

// members are those that were read; exact reports whether these are all.
func (s sample) members() (all []redis.Z, exact bool) {
	exact = s.weight == 1
	for _, reply := range s.replies {
		exact = exact && reply.Err() == nil
		all = append(all, reply.Val()...)
	}
	return all, exact
}

// sampleUsers chooses users by rank of the moments of their wake-ups. Everybody for whom something waits has one.
func (a *Agendas) sampleUsers(ctx context.Context) (users []*sampledUser, exact bool) {
	sizes, _ := a.countWakeups(ctx)
	exact = true
	pipe := a.Client.Pipeline()
	samples := make([]sample, a.Partitions())
	for partition, prefix := range a.Prefixes() {
		exact = exact && sizes[partition].Err() == nil
		samples[partition] = sampleOf(ctx, pipe, prefix+"wakeups", sizes[partition].Val(),
			int64(max(leastUsers, forecastUsers/a.Partitions())))
	}
	_, _ = pipe.Exec(ctx)
	for partition, some := range samples {
		members, whole := some.members()
		exact = exact && whole
		for _, member := range members {
			id, _ := member.Member.(string) // it always is one
			users = append(users, &sampledUser{partition: partition, id: id, weight: some.weight})
		}
	}
	return users, exact
}

// readAgendas reads what waits for the users.
func (a *Agendas) readAgendas(ctx context.Context, users []*sampledUser) (exact bool) {
	pipe := a.Client.Pipeline()
	fields, sizes := make([]*redis.MapStringStringCmd, len(users)), make([]*redis.IntCmd, len(users))
	for i, u := range users {
		fields[i] = pipe.HGetAll(ctx, a.Prefixes()[u.partition]+"a:"+u.id)
		sizes[i] = pipe.ZCard(ctx, a.Prefixes()[u.partition]+"r:"+u.id)
	}
	_, _ = pipe.Exec(ctx)
	exact = true
	pipe = a.Client.Pipeline()
	samples := make([]sample, len(users))
	for i, u := range users {
		prefix, whole := a.Prefixes()[u.partition], false
		u.blocked, whole = blockedOf(fields[i].Val())
		exact = exact && whole && fields[i].Err() == nil && sizes[i].Err() == nil
		for k, b := range u.blocked {
			u.blocked[k].size = pipe.ZCard(ctx, prefix+"w:"+b.category+":"+u.id)
		}
		if sizes[i].Val() > 0 {
			samples[i] = sampleOf(ctx, pipe, prefix+"r:"+u.id, sizes[i].Val(), forecastLater)
		}
	}
	_, _ = pipe.Exec(ctx)
	return a.readLaterOnes(ctx, users, samples) && exact
}

// readLaterOnes reads what the notifications that are later wait for.
func (a *Agendas) readLaterOnes(ctx context.Context, users []*sampledUser, samples []sample) (exact bool) {
	exact = true
	pipe := a.Client.Pipeline()
	for i, u := range users {
		if samples[i].replies == nil {
			continue
		}
		members, whole := samples[i].members()
		exact = exact && whole
		for _, member := range members {
			id, _ := member.Member.(string) // it always is one
			u.later = append(u.later, laterOne{
				id: id, due: throttle.Micros(member.Score), weight: samples[i].weight * u.weight,
				about: pipe.HMGet(ctx, a.Prefixes()[u.partition]+"n:"+id, keyspace.Fields.Category,
					keyspace.Fields.State, keyspace.Fields.Held),
			})
		}
	}
	_, err := pipe.Exec(ctx)
	return exact && (err == nil || errors.Is(err, redis.Nil))
}

// blockedOf reads the fields of an agenda, and gives the backlogs that wait for a moment, the first ones first; exact
// reports whether these are all.
func blockedOf(fields map[string]string) (all []blocked, exact bool) {
	for category, field := range fields {
		if !agenda.IsCategory(category) {
			continue
		}
		parts := strings.Fields(field)
		if len(parts) < 3 || parts[0] == "0" {
			continue
		}
		next, _ := strconv.ParseInt(parts[0], 10, 64) // the scripts write nothing else
		rule, _ := strconv.ParseInt(parts[1], 10, 64)
		all = append(all, blocked{category: category, field: field, next: throttle.Micros(next), rule: rule})
	}
	slices.SortFunc(all, func(a, b blocked) int {
		return cmp.Or(cmp.Compare(a.next, b.next), strings.Compare(a.category, b.category))
	})
	return all[:min(len(all), forecastBacklogs)], len(all) <= forecastBacklogs
}
