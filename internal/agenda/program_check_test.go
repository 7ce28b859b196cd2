//nolint:errcheck,forcetypeassert // a look script of this package returns what it says
package agenda_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
)

// lookScript sets the clock, does what asynq's forwarder would, and reports what there is of counts and wake-ups.
//
// ARGV[1] now in µs, ARGV[2…] users.
var lookScript = redis.NewScript(`
local p, q = 'pacer:{push-0}:', 'asynq:{push-0}:'
redis.call('SET', 'test:now', ARGV[1])
local due = redis.call('ZRANGEBYSCORE', q .. 'scheduled', '-inf', math.floor(tonumber(ARGV[1]) / 1000000))
for _, id in ipairs(due) do
  redis.call('ZREM', q .. 'scheduled', id)
  redis.call('LPUSH', q .. 'pending', id)
  redis.call('HSET', q .. 't:' .. id, 'state', 'pending', 'pending_since', ARGV[1] .. '000')
end
local users = {}
for i = 2, #ARGV do
  local u = ARGV[i]
  local f = redis.call('HMGET', q .. 't:' .. u, 'state', 'msg', 'pending_since')
  users[#users + 1] = { u, f[1] or '', f[2] and 1 or 0, redis.call('HGET', p .. 'a:' .. u, '') or '',
    redis.call('ZSCORE', p .. 'wakeups', u) or '', redis.call('ZSCORE', q .. 'scheduled', u) or '',
    redis.call('ZSCORE', q .. 'lease', u) and 1 or 0, f[3] or '0',
    redis.call('HLEN', p .. 'a:' .. u) - redis.call('HEXISTS', p .. 'a:' .. u, '') -
      redis.call('HEXISTS', p .. 'a:' .. u, '!') }
end
return { redis.call('HGETALL', p .. 'c'), redis.call('HLEN', p .. 'v'), redis.call('ZCARD', p .. 'e'),
  redis.call('LRANGE', q .. 'pending', 0, -1), redis.call('LRANGE', q .. 'active', 0, -1), users }
`)

// snapshot is what lookScript tells.
type snapshot struct {
	counts          map[string]int64
	users, flight   int64
	pending, active []string
	agendas         map[string]standing
}

// standing is how the wake-up of a user stands.
type standing struct {
	state, process    string
	message, leased   bool
	waits             bool // something of the user
	generation        int64
	heldUntil         int64
	since             int64 // when it became pending
	stands, scheduled int64 // 0: not
}

// look tells the clock to Redis and reads how things stand.
func (p *program) look(int) {
	args := []any{p.model.now}
	for _, u := range programUsers {
		args = append(args, u)
	}
	reply, err := lookScript.Run(p.ctx, p.client, nil, args...).Slice()
	p.must(err, "look")
	s := snapshot{
		counts: map[string]int64{}, users: reply[1].(int64), flight: reply[2].(int64), agendas: map[string]standing{},
	}
	counts := texts(reply[0])
	for i := 0; i < len(counts); i += 2 {
		s.counts[counts[i]] = integer(counts[i+1])
	}
	s.pending, s.active = texts(reply[3]), texts(reply[4])
	for _, one := range reply[5].([]any) {
		f := one.([]any)
		st := standing{
			state: f[1].(string), message: f[2].(int64) == 1, stands: integer(f[4].(string)),
			scheduled: integer(f[5].(string)),
			leased:    f[6].(int64) == 1, since: integer(strings.TrimSuffix(f[7].(string), "000")),
			waits: f[8].(int64) > 0,
		}
		if at := strings.Fields(f[3].(string)); len(at) == 3 {
			st.generation, st.process, st.heldUntil = integer(at[0]), at[1], integer(at[2])
		}
		s.agendas[f[0].(string)] = st
	}
	p.snap = s
}

func texts(reply any) []string {
	var all []string
	for _, one := range reply.([]any) {
		all = append(all, one.(string))
	}
	return all
}

func integer(text string) int64 {
	f, _ := strconv.ParseFloat(text, 64) // absent means 0
	return int64(f)
}

// holders are the wake-ups at work.
func (s snapshot) holders() map[string]standing {
	held := maps.Clone(s.agendas)
	maps.DeleteFunc(held, func(_ string, st standing) bool { return st.generation == 0 })
	return held
}

// first are the users whose wake-ups a pull of n takes: the oldest, but for copies. Of somebody for whom nothing waits,
// or whose wake-up is at work, the task has to be there.
func (s snapshot) first(n int) []string {
	var users []string
	for i := len(s.pending) - 1; i >= max(0, len(s.pending)-n); i-- {
		user := s.pending[i]
		st := s.agendas[user]
		if !slices.Contains(users, user) && (st.waits && st.generation == 0 || st.message && st.state == "pending") {
			users = append(users, user)
		}
	}
	return users
}

// oldest is since when the oldest that is pending is; 0 when its task is gone, and far away when nothing is.
func (s snapshot) oldest() int64 {
	if len(s.pending) == 0 {
		return 1 << 60
	}
	return s.agendas[s.pending[len(s.pending)-1]].since
}

// check looks whether the counts are exact and the wake-ups stand.
func (p *program) check() {
	p.look(0)
	want := p.model.gauges()
	if p.snap.users != want["users"] || p.snap.flight != want["flight"] {
		p.failf("%d users are deferred, %d in flight, want %v; counts %v", p.snap.users, p.snap.flight, want, p.snap.counts)
	}
	delete(want, "users")
	delete(want, "flight")
	maps.Copy(want, p.model.counts)
	for name, n := range want {
		if p.snap.counts[name] != n {
			p.failf("the count of %s is %d, want %d; all: %v", name, p.snap.counts[name], n, p.snap.counts)
		}
	}
	if !p.deaf && !maps.Equal(p.told, p.model.told) {
		p.failf("deferrals told: %v, want %v", p.told, p.model.told)
	}
	for _, user := range programUsers {
		p.checkWakeup(user)
	}
	if p.rand.IntN(40) == 0 {
		p.checkEach()
	}
}

// checkWakeup is the invariant: while anything of a user waits, a live wake-up stands at or before the earliest moment
// at which anything of it may go.
func (p *program) checkWakeup(user string) {
	st := p.snap.agendas[user]
	if !p.scarred {
		if places := p.places(user); places > 1 {
			p.failf("the wake-up of %s is in %d places: %+v, pending %v, active %v", user, places, st, p.snap.pending,
				p.snap.active)
		}
	}
	due, found := p.model.earliest(user)
	if !found {
		return
	}
	fault := p.wakeupFault(user, st, due)
	if fault == "" {
		delete(p.lost, user)
	} else if !p.lost[user] {
		p.failf("something of %s may go at +%.6f: %s (%+v)", user, float64(due-start.UnixMicro())/1e6, fault, st)
	}
}

// places counts in how many places a wake-up is.
func (p *program) places(user string) int {
	n := 0
	for _, other := range slices.Concat(p.snap.pending, p.snap.active) {
		if other == user {
			n++
		}
	}
	if p.snap.agendas[user].scheduled > 0 {
		n++
	}
	return n
}

func (p *program) wakeupFault(user string, st standing, due int64) string {
	switch {
	case st.stands == 0:
		return "the sweeper does not know of a wake-up"
	case st.stands > due:
		return fmt.Sprintf("the sweeper expects the wake-up %d µs later", st.stands-due)
	case st.message && st.state == "pending" && slices.Contains(p.snap.pending, user):
		return "" // whoever pulls it has it then, though a process holds it that pulled a copy
	case st.generation > 0:
		return p.holderFault(user, st, due)
	case !st.message:
		return "its task is gone"
	case st.state == "scheduled" && st.scheduled > 0:
		if at := st.scheduled * 1_000_000; at > max(due, p.model.now) {
			return fmt.Sprintf("its task comes %d µs later", at-due)
		}
		return ""
	}
	return "no wake-up comes"
}

func (p *program) holderFault(user string, st standing, due int64) string {
	i := slices.IndexFunc(p.procs, func(pr *process) bool { return pr.name == st.process })
	if i < 0 {
		return "its holder is dead"
	}
	if p.procs[i].lost != nil { // it will ask again, and learn what it holds
		return ""
	}
	h, found := p.procs[i].held[user]
	if !found || h.Generation != st.generation {
		return "its holder does not know of it"
	}
	if at := h.at.UnixMicro(); at > max(due, p.model.now) {
		return fmt.Sprintf("its holder asks %d µs later", at-due)
	}
	return ""
}

// checkEach looks at every notification, as people do.
func (p *program) checkEach() {
	p.checkAwake()
	deferrals := int64(0)
	for _, n := range p.model.order {
		if n.Deferred {
			deferrals++
		}
		if n.Status == "" {
			continue
		}
		state, err := outlook.Of(p.stores[0]).LookupIn(p.ctx, 0, n.ID)
		p.must(err, "look up "+n.ID)
		if want := p.statusOf(n); state.Status != want || (state.Deferrals > 0) != n.Deferred ||
			state.Attempts != n.Generation-n.Returned {
			p.failf("%s is %s after %d deferrals and %d attempts, want %s and %+v", n.ID, state.Status, state.Deferrals,
				state.Attempts, want, n)
		}
	}
	if deferrals != p.model.counts["deferrals"] {
		p.failf("the model's notifications were deferred %d times, it counts %d", deferrals,
			p.model.counts["deferrals"])
	}
}

// checkAwake looks whether the agendas themselves say that a wake-up comes in time.
func (p *program) checkAwake() {
	if p.scarred {
		return
	}
	awake, err := p.stores[0].Awake(p.ctx, programUsers)
	p.must(err, "look for wake-ups")
	for i, user := range programUsers {
		if !awake[i] && !p.lost[user] && p.model.agenda(user).Excused() <= p.model.moment() {
			p.failf("no wake-up of %s is said to come in time: %+v", user, p.snap.agendas[user])
		}
	}
}

func (p *program) statusOf(n *note) notification.Status {
	b := p.model.backlog(n.user, n.Category)
	if b != nil && n.Status == notification.StatusQueued && b.Deferred(n.Note) {
		return notification.StatusDeferred
	}
	return n.Status
}

// sweep has a process sweep. What was lost is found by it when its moment passed long enough ago, and nobody who lives
// has it.
func (p *program) sweep() string { return p.sweepBy(p.oneOf()) }

func (p *program) sweepBy(pr *process) string {
	const grace, presence = 1_000_000, 3_000_000
	before := p.snap
	now := p.model.now
	last := keyspace.Prefix(0) + "sweep"
	p.must(p.client.HSet(p.ctx, last, "last", now-1_000_000).Err(), "set the last sweep")
	p.model.sweep()
	pr.seen = now
	repairs, err := pr.store.Sweep(p.ctx, 0)
	p.must(err, "sweep")
	for user := range p.lost {
		st := before.agendas[user]
		seen := int64(0)
		for _, other := range slices.Concat(p.procs, p.dead) {
			if other.name == st.process {
				seen = other.seen
			}
		}
		if st.state == "pending" && st.message && st.since >= before.oldest() {
			continue // nobody can tell, before the list has moved on
		}
		atWork := st.generation > 0 && seen > now-presence && st.heldUntil > now-5*grace
		if st.stands > 0 && st.stands <= now-grace && !atWork {
			delete(p.lost, user)
		}
	}
	return fmt.Sprintf("%s sweeps: %+v", pr.name, repairs)
}

// destroy loses a wake-up, or all that is pending.
func (p *program) destroy() string {
	user := pick(p.rand, programUsers)
	p.scarred = true
	switch p.rand.IntN(3) {
	case 0:
		p.lost[user] = true
		p.must(p.client.Del(p.ctx, queueKey(0, "t:"+user)).Err(), "delete a task")
		return "the task of " + user + " is deleted"
	case 1:
		p.lost[user] = true
		p.must(p.client.ZRem(p.ctx, queueKey(0, "scheduled"), user).Err(), "delete a scheduled task")
		return user + " is scheduled no more"
	}
	for _, pending := range p.snap.pending {
		p.lost[pending] = true
	}
	p.must(p.client.Del(p.ctx, queueKey(0, "pending")).Err(), "delete the list of what is pending")
	return "the list of what is pending is deleted"
}

// finish lets everything end, and looks at the whole.
func (p *program) finish() {
	p.do(func(*program) string {
		clear(p.model.paused)
		p.wakeAll()
		return "resume all"
	})
	if p.stopped {
		p.do((*program).stop)
	}
	for i := 0; p.alive(); i++ {
		if i == 400 {
			p.failf("it does not end: %v, %+v", p.model.gauges(), p.snap)
		}
		for _, pr := range p.procs {
			p.do(func(*program) string { return p.drain(pr) })
		}
		p.do((*program).untilNext)
		if i%4 == 3 {
			p.do((*program).pass)
			p.do(func(*program) string { return p.sweepBy(p.procs[0]) })
		}
	}
	p.checkEach()
	if left := p.leftovers(); len(left) > 0 {
		p.failf("left: %v; %+v", left, p.snap)
	}
}

// alive reports whether anything waits or is in flight, or a wake-up is about.
func (p *program) alive() bool {
	for _, n := range p.model.gauges() {
		if n > 0 {
			return true
		}
	}
	for _, st := range p.snap.agendas {
		if st.stands > 0 || st.generation > 0 {
			return true
		}
	}
	return len(p.snap.pending) > 0
}

// drain has a process settle one of what it has, or ask for all.
func (p *program) drain(pr *process) string {
	if r := pr.lost; r != nil {
		pr.lost = nil
		return p.askAgain(pr, r)
	}
	if len(pr.grants) > 0 {
		s := settlement{pr.grants[0], delivered}
		pr.grants = pr.grants[1:]
		return p.write(pr, s)
	}
	p.rounds++
	r := &round{}
	r.ID, r.Capacity, r.Pull = "r"+strconv.Itoa(p.rounds), 50, 8
	for _, user := range slices.Sorted(maps.Keys(pr.held)) {
		if h := pr.held[user]; !h.at.After(p.time()) {
			r.Wakeups = append(r.Wakeups, h.Wakeup)
		}
	}
	return p.ask(pr, r, false)
}

// leftovers lists the keys that are neither counts nor records nor the limiter's.
func (p *program) leftovers() []string {
	keys, err := p.client.Keys(p.ctx, "*").Result()
	p.must(err, "list the keys")
	return slices.DeleteFunc(keys, func(key string) bool {
		copies := key == queueKey(0, "active") || key == queueKey(0, "scheduled")
		return expectedKey(key) || p.scarred && copies
	})
}
