package agenda_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// theatre is where programs are played, one after the other: a database, and processes that stand ready.
type theatre struct {
	ctx    context.Context
	client *redis.Client
	stores []*agenda.Agendas
	// program at play.
	*program
}

// programProcesses is how many processes a program may use up: two at a time, and what replaces those that die.
const programProcesses = 4

func newTheatre(t testing.TB, client *redis.Client, change func(source string) string) *theatre {
	t.Helper()
	th := &theatre{ctx: t.Context(), client: client}
	for i := range programProcesses {
		store, err := agenda.New(client, agenda.Config{
			Partitions: 1, Process: "p" + strconv.Itoa(i),
			Settings: func(_, category string) agenda.Settings { return th.model.settingsNow(category) },
			Deferred: func(category, _ string, n int) { th.told[category] += n },
			Shadowed: func(category, rule string) { th.told[category+" "+rule]++ },
			Overflowed: func(category, action string) {
				if action != string(notification.OverflowDigest) { // it ends nothing
					th.told[category+" overflow"]++
				}
			},
		})
		if err != nil {
			t.Fatalf("new store: %v", err)
		}
		// As the model does, rounds look at all that is due: their budgets are for crowds.
		if err := store.UseClockKeyWith(func(source string) string {
			return change(strings.Replace(source, "left, looks_left = 100, 400", "left, looks_left = 1000, 4000", 1))
		}); err != nil {
			t.Fatalf("change the scripts: %v", err)
		}
		th.stores = append(th.stores, store)
	}
	return th
}

// program is a random life of a few agendas, played on Redis and on the model.
type program struct {
	*theatre
	model *model
	rand  *rand.Rand
	// procs are alive; those in dead are not, but may have something at work still.
	procs, dead []*process
	snap        snapshot
	// lost users have a wake-up that was destroyed, or is held by one that died; until a sweep has to have found out.
	lost map[string]bool
	// scarred tells that a task was destroyed at any time: then copies may be about.
	scarred bool
	told    map[string]int // deferrals by category
	stopped bool           // the partition is paused
	limits  limits
	made    int
	rounds  int
	steps   int
	script  []string   // what was done, for people
	deaf    bool       // a reply was lost, with what it told of deferrals
	capped  bool       // see cappedSeeds
	ladders *rand.Rand // draws overflow ladders; nil in programs without
	// numbered programs accept what another store has given an arrival, others what is accepted here.
	numbered bool
}

// cappedSeeds is where the seeds begin of programs in which caps of some channels often hold what is first, and what is
// first is often cancelled: others do not come upon what goes wrong behind it.
const cappedSeeds = 1 << 63

// process is one that works and sweeps.
type process struct {
	name   string
	store  *agenda.Agendas
	held   map[string]heldWakeup
	grants []*dispatch.Grant
	seen   int64 // when the others heard of it last
	// lost is a round whose reply was lost, and which is to be repeated.
	lost    *round
	settled []settlement
}

type settlement struct {
	grant   *dispatch.Grant
	outcome dispatch.Outcome
}

// fault ends a program.
type fault string

func (p *program) failf(format string, args ...any) { panic(fault(fmt.Sprintf(format, args...))) }

func (p *program) must(err error, what string) {
	if err != nil {
		p.failf("%s: %v", what, err)
	}
}

var (
	programUsers      = []string{"ada", "ben", "cid"}
	programCategories = []string{"chat", "news", "alarm"}
	programChannels   = []notification.Channel{"fcm", "fcm:shop", "apns", "email"}
)

// play plays a program; it reports what was wrong, and how many steps it had.
func (th *theatre) play(seed uint64) (wrong string, steps int) {
	p := &program{
		theatre: th, model: newModel(start.UnixMicro()), rand: rand.New(rand.NewPCG(seed, 0)), lost: map[string]bool{},
		told: map[string]int{}, numbered: seed%2 == 1,
	}
	th.program = p
	defer func() {
		if r := recover(); r != nil {
			f, ours := r.(fault)
			if !ours {
				panic(r)
			}
			script := strings.Join(p.script, "\n  ")
			wrong, steps = fmt.Sprintf("seed %d, step %d: %s\n  %s", seed, p.steps, f, script), p.steps
		}
	}()
	p.must(th.client.FlushDB(th.ctx).Err(), "empty the database")
	for i := range 2 {
		p.procs = append(p.procs, p.process(i))
	}
	if seed%6 < 2 {
		p.ladders = rand.New(rand.NewPCG(seed, 1))
	}
	p.limits = p.randomLimits()
	if p.capped = seed >= cappedSeeds; p.capped {
		p.limits.capByChannel(p.rand)
	}
	for _, c := range programCategories {
		p.model.settings[c] = p.randomSettings()
	}
	p.look(0)
	for range 30 + p.rand.IntN(60) {
		p.step()
	}
	p.finish()
	return "", p.steps
}

func (p *program) process(i int) *process {
	return &process{name: "p" + strconv.Itoa(i), store: p.stores[i], held: map[string]heldWakeup{}, seen: p.model.now}
}

// act is something that may happen, and how often. It reports what it did; "" for nothing.
type act struct {
	weight int
	do     func(p *program) string
}

var acts = []act{
	{12, (*program).accept},
	{24, (*program).round},
	{12, (*program).settle},
	{1, (*program).settleAgain},
	{10, (*program).pass},
	{4, (*program).untilNext},
	{2, (*program).cancel},
	{3, (*program).alter},
	{2, (*program).change},
	{1, (*program).pause},
	{1, (*program).stop},
	{3, (*program).sweep},
	{1, (*program).destroy},
	{1, (*program).die},
	{1, (*program).extend},
}

// step has something happen, and looks whether all is well then.
func (p *program) step() {
	n := 0
	for _, a := range acts {
		n += a.weight
	}
	if p.capped && p.rand.IntN(6) == 0 {
		p.do((*program).cancelFirst)
		return
	}
	if p.grantedAhead() != nil && p.rand.IntN(2) == 0 {
		p.do((*program).passAhead)
		p.do((*program).round)
		p.do((*program).round)
		return
	}
	n = p.rand.IntN(n)
	for _, a := range acts {
		if n -= a.weight; n < 0 {
			p.do(a.do)
			return
		}
	}
}

func (p *program) do(act func(*program) string) {
	p.script = append(p.script, "?")
	at := len(p.script) - 1
	what := act(p)
	if what == "" { // there was nothing of that kind to do
		p.script = p.script[:at]
		return
	}
	p.script[at] = fmt.Sprintf("%d +%.6f %s", p.steps, float64(p.model.now-start.UnixMicro())/1e6, what)
	p.steps++
	p.check()
}

func (p *program) accept() string {
	var entries []agenda.Entry
	for range 1 + p.rand.IntN(3) {
		entries = append(entries, p.entry())
	}
	return p.acceptAll(entries)
}

// grantedAhead is a notification that was granted for a moment that is yet to come.
func (p *program) grantedAhead() *note {
	for _, n := range p.model.order {
		if n.Status == notification.StatusSending && n.Admitted > p.model.moment() {
			return n
		}
	}
	return nil
}

// passAhead accepts something urgent for a user while a slot of theirs is granted ahead.
func (p *program) passAhead() string {
	e := p.entry()
	e.UserID, e.Priority = p.grantedAhead().user, notification.PriorityCritical
	e.SendAt, e.ExpiresAt = time.Time{}, time.Time{}
	for _, category := range programCategories {
		if p.model.settings[category].BypassFrom > 0 {
			e.Category = category
		}
	}
	return p.acceptAll([]agenda.Entry{e})
}

func (p *program) acceptAll(entries []agenda.Entry) string {
	want := p.model.accept(entries)
	placed, err := p.procs[0].store.Accept(p.ctx, 0, entries)
	p.must(err, "accept")
	for i, got := range placed {
		n := p.model.notes[entries[i].ID]
		refused := n == nil
		dropped := !refused && n.Status == notification.StatusExpired && n.Reason == notification.ReasonOverflow
		if at := max(want[i], -want[i]); !refused && got.AcceptedAt.UnixMicro() != at ||
			(got.First != nil) != (want[i] < 0) || got.Refused != refused ||
			got.Dropped != dropped && (got.Dropped || i == len(placed)-1) { // one behind it may have ended it
			p.failf("%s was accepted as %+v, want %d, refused %t, dropped %t", entries[i].ID, got, want[i], refused, dropped)
		}
	}
	var text []string
	for _, e := range entries {
		n := p.model.notes[e.ID]
		if n == nil {
			text = append(text, fmt.Sprintf("%s %s/%s p%d refused", e.ID, e.UserID, e.Category, e.Priority))
			continue
		}
		text = append(text, fmt.Sprintf("%s %s/%s on %s p%d %s later %d expires %d key %q arrived %d", n.ID, n.user,
			n.Category, n.Channel, n.Priority, n.Status, n.NotBefore, n.Expires, n.CollapseKey, n.Arrival))
	}
	return "accept " + strings.Join(text, "; ")
}

func (p *program) entry() agenda.Entry {
	if len(p.model.order) > 0 && p.rand.IntN(25) == 0 {
		if known := pick(p.rand, p.model.order); known.Status != "" {
			return agenda.Entry{
				ID: known.ID, UserID: known.user, Category: known.Category, Priority: 1, Payload: "another",
			}
		}
	}
	p.made++
	e := agenda.Entry{
		ID: "n" + strconv.Itoa(p.made), UserID: pick(p.rand, programUsers), Category: pick(p.rand, programCategories),
		Priority: notification.Priority(1 + p.rand.IntN(4)),
		Payload:  agenda.OnChannel(pick(p.rand, programChannels)) + strconv.Itoa(p.made),
	}
	e.Of = &notification.Notification{GroupKey: []string{"", "", "", "order 7"}[p.rand.IntN(4)]}
	if p.ladders != nil && p.ladders.IntN(3) > 0 { // much of one
		e.UserID, e.Category = "ada", "chat"
	}
	switch p.rand.IntN(12) {
	case 0, 1:
		e.SendAt = time.UnixMicro(p.model.now + p.rand.Int64N(6_000_000))
	case 2:
		e.ExpiresAt = time.UnixMicro(p.model.now + p.rand.Int64N(8_000_000))
	case 3, 4, 5:
		e.CollapseKey = "key " + strconv.Itoa(p.rand.IntN(2))
		if p.rand.IntN(3) == 0 {
			e.SendAt = time.UnixMicro(p.model.now + p.rand.Int64N(6_000_000))
		}
	}
	if p.numbered {
		e.Age = time.Duration(p.rand.IntN(10)/9) * time.Duration(p.rand.IntN(3000)) * time.Millisecond
		e.Arrival = (p.model.now-start.UnixMicro()-e.Age.Microseconds()+3_000_000)*1000 + int64(p.made)%1000 + 1
	}
	return e
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// oneOf picks a process that lives.
func (p *program) oneOf() *process { return pick(p.rand, p.procs) }

func (p *program) cancel() string {
	if len(p.model.order) == 0 {
		return ""
	}
	return p.cancelOne(pick(p.rand, p.model.order))
}

// alter changes what waits, or releases it.
func (p *program) alter() string {
	if len(p.model.order) == 0 {
		return ""
	}
	n := pick(p.rand, p.model.order)
	c := agenda.Change{ID: n.ID, UserID: n.user, Category: n.Category, Priority: notification.Priority(p.rand.IntN(5))}
	at := time.UnixMicro(p.model.now + p.rand.Int64N(8_000_000) - 2_000_000)
	switch p.rand.IntN(3) {
	case 0:
		c.NotBefore = &at
	case 1:
		c.ExpiresAt = at.Add(2 * time.Second)
	}
	if c.Priority == notification.Released {
		c.NotBefore = &time.Time{}
	}
	waited := p.model.alter(n, c)
	if err := p.procs[0].store.Change(p.ctx, 0, c); n.Status != "" && waited != (err == nil) {
		p.failf("change %s: %v, it waited: %t", n.ID, err, waited)
	}
	return fmt.Sprintf("change %+v", c)
}

// cancelFirst cancels what others wait behind.
func (p *program) cancelFirst() string {
	user, category := pick(p.rand, programUsers), pick(p.rand, programCategories)
	if b := p.model.backlog(user, category); b != nil && len(b.Notes()) > 1 {
		if blocked, _ := b.Blocked(); blocked > 0 {
			return p.cancelOne(p.model.notes[b.Notes()[0].ID])
		}
	}
	return ""
}

func (p *program) cancelOne(n *note) string {
	if n.Status == "" {
		return ""
	}
	waited := p.model.cancel(n.ID)
	if err := p.procs[0].store.CancelIn(p.ctx, 0, n.ID, "cancelled"); waited != (err == nil) {
		p.failf("cancel %s: %v, it waited: %t", n.ID, err, waited)
	}
	return "cancel " + n.ID
}

// change has other settings from now on, for some categories, and has everybody looked at again; or windows are
// cleared.
func (p *program) change() string {
	if p.rand.IntN(4) == 0 {
		b := dispatch.Backlog{UserID: pick(p.rand, programUsers), Category: pick(p.rand, programCategories)}
		p.model.clear(b)
		p.must(p.procs[0].store.Clear(p.ctx, b), "clear")
		return fmt.Sprint("clear ", b)
	}
	category := pick(p.rand, programCategories)
	p.model.settings[category], p.model.changed[category] = p.randomSettings(), p.model.now
	p.wakeAll()
	return fmt.Sprintf("%s has %+v", category, p.model.settings[category])
}

func (p *program) wakeAll() {
	p.must(p.procs[0].store.Wake(p.ctx, 0, programUsers...), "wake")
}

func (p *program) pause() string {
	category := pick(p.rand, programCategories)
	if p.model.paused[category] > p.model.now {
		p.model.paused[category] = 0
		p.wakeAll()
		return "resume " + category
	}
	p.model.paused[category] = p.model.now + p.rand.Int64N(10_000_000)
	return "pause " + category
}

func (p *program) stop() string {
	if p.stopped = !p.stopped; p.stopped {
		p.must(p.client.Set(p.ctx, queueKey(0, "paused"), "1", 0).Err(), "pause the partition")
		return "pause the partition"
	}
	p.must(p.client.Del(p.ctx, queueKey(0, "paused")).Err(), "resume the partition")
	return "resume the partition"
}

func (p *program) pass() string {
	most := []int64{5_000, 100_000, 1_500_000, 9_000_000, 20_000_000}[p.rand.IntN(5)]
	p.model.now += 1 + most*p.rand.Int64N(1000)/1000
	return "pass"
}

// untilNext lets the time pass until something is due, or until it may be granted ahead.
func (p *program) untilNext() string {
	next := int64(0)
	for _, user := range programUsers {
		if at, found := p.model.earliest(user); found && at > p.model.now && (next == 0 || at < next) {
			next = at
		}
	}
	if next == 0 {
		return ""
	}
	p.model.now = max(p.model.now, next-p.rand.Int64N(2)*p.rand.Int64N(modelHorizon/1000)*1000)
	return "until something is due"
}

// die ends a process, with all that it has at work; another begins.
func (p *program) die() string {
	if len(p.procs)+len(p.dead) == programProcesses {
		return ""
	}
	i := p.rand.IntN(len(p.procs))
	gone := p.procs[i]
	p.dead = append(p.dead, gone)
	for user, generation := range p.snap.holders() {
		if generation.process == gone.name {
			p.lost[user] = true
		}
	}
	p.procs[i] = p.process(len(p.procs) + len(p.dead) - 1)
	return gone.name + " dies with " + fmt.Sprint(slices.Sorted(maps.Keys(gone.held)))
}
