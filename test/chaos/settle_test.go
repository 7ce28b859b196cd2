package chaos_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
)

const (
	// patience is how long, on the world's clock, all may take to end once nothing fails any more: leases that end
	// three times, limits, retries.
	patience = 20 * time.Minute
	// rounds bounds the same by work.
	rounds = 250
)

// settle takes all faults away and lets everything end. What has not ended then never will.
func (w *world) settle() error {
	w.story("from here on nothing fails")
	for number := range w.procs {
		if err := w.restart(number); err != nil {
			return err
		}
	}
	for w.arrive() {
		w.goAll()
	}
	w.goAll()
	if w.shardDown >= 0 {
		if err := w.settleBeside(w.shardDown); err != nil {
			return err
		}
		w.shard(-1)
	}
	w.restore()
	calm, deadline := time.Now().Add(recovery), time.Now().Add(patience)
	for round := range rounds {
		if time.Now().After(deadline) {
			break
		}
		if err := w.round(round); err != nil {
			return err
		}
		if w.allEnded() {
			return nil
		}
		next := w.untilNext()
		if time.Now().After(calm) {
			next = min(next, w.lookForIdle())
		}
		w.pass(next)
	}
	return nil
}

const (
	// idleAtMost is how long a slot may stay free while somebody waits for it: the world looks twice a second.
	idleAtMost = 1500 * time.Millisecond
	// recovery is how long after the last fault slots may be missed: what a dead process had at work is found when its
	// presence has lapsed, what a living one has forgotten some seconds after its moment, and a look of the sweeper
	// later it goes.
	recovery = 10 * time.Second
)

// lookForIdle is P5: it looks for backlogs that may go and do not, and reports when the next may.
func (w *world) lookForIdle() time.Duration {
	p, next := w.procs[0], time.Hour
	for _, user := range users {
		for _, category := range []string{"chat", "news", "free", "urgent"} {
			backlog := dispatch.BacklogOf(user, category, partitions)
			found, err := outlook.Of(p.agendas).Peek(context.Background(), backlog)
			name := category + ":" + user
			switch {
			case err != nil || found.Waiting == 0:
				delete(w.idle, name)
			case found.Wait() > 0:
				delete(w.idle, name)
				next = min(next, found.Wait()+time.Millisecond)
			default:
				if w.idle[name].IsZero() {
					w.idle[name] = time.Now()
				}
				if time.Since(w.idle[name]) > idleAtMost {
					w.ledger.breaks("P5: %d wait in %s, may go and do not", found.Waiting, name)
				}
				next = min(next, 500*time.Millisecond)
			}
		}
	}
	return next
}

// settleBeside lets everything end but what belongs to a partition whose shard is away: it must not keep the others.
func (w *world) settleBeside(down int) error {
	w.restore()
	deadline := time.Now().Add(patience / 2)
	for round := 0; round < rounds && time.Now().Before(deadline); round++ {
		if err := w.round(round); err != nil {
			return err
		}
		if len(w.openBeside(down)) == 0 {
			return nil
		}
		// What the shard holds is always due, and a night in which others wait may last for minutes.
		w.pass(max(2*time.Second, min(w.untilNext(), 5*time.Second)))
	}
	if open := w.openBeside(down); len(open) > 0 {
		w.ledger.breaks("P1: while the shard of partition %d was away, %v of other partitions never ended", down, open)
	}
	return nil
}

// restore has producers repeat requests that got no response, and operators and users take back what they did.
func (w *world) restore() {
	p := w.procs[0]
	w.do(p, "follow policy", func(ctx context.Context) {
		for _, p := range w.procs {
			beside := context.WithValue(ctx, opKey{}, (*operation)(nil))
			if p.knowledge().version != w.version {
				p.adopt(beside, w.version)
			}
			p.followUsers(beside)
		}
	})
	if w.version != 0 {
		w.unwoken = [partitions]bool{true, true}
	}
	for _, partition := range []int{0, 1} {
		if w.paused[partition] {
			w.do(p, "resume", func(ctx context.Context) {
				// Whether it succeeded shows in the end.
				_, _ = p.control.Resume(ctx, control.Subject{Kind: control.Partition, Name: strconv.Itoa(partition)})
			})
		}
	}
	if len(w.evictions) > 0 { // also while a shard is away: the partitions that can be reached are built anew
		w.do(p, "rebuild", func(ctx context.Context) { _, _ = p.relay.Rebuild(ctx) }) // the end tells
		w.rebuiltAt = time.Now()
	}
	for range 3 { // what a shard that is away does not take is asked for again
		var items []item
		for _, id := range w.ledger.ids {
			if e := w.ledger.entries[id]; !e.accepted {
				items = append(items, e.item)
			}
		}
		for _, it := range items {
			w.do(p, "accept "+it.ID, func(ctx context.Context) { p.accept(ctx, []item{it}) })
		}
	}
}

// do has a process do something to its end.
func (w *world) do(p *process, name string, what func(ctx context.Context)) {
	w.lastOp++
	number := w.lastOp
	w.start(number, p, name, func(ctx context.Context, _ *operation) { what(ctx) })
	w.goAll()
}

// round does once what the loops of a process do.
func (w *world) round(round int) error {
	p := w.procs[round%len(w.procs)]
	w.recoverTasks()
	w.lookAgain(p)
	for _, m := range []string{"follow", "relay", "forward", "sweep"} {
		if m == "relay" && p.relay == nil || m == "follow" && len(w.paused) == 0 && round%8 > 0 {
			continue
		}
		if err := w.does(move{Do: m, Proc: p.number}); err != nil {
			return err
		}
	}
	for partition := range partitions {
		for range 50 {
			if w.pending(partition) == 0 {
				break
			}
			if err := w.does(move{Do: "pull", Proc: p.number, N: partition}); err != nil {
				return err
			}
		}
		if err := w.serveAll(partition); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain does what is done until it succeeds after a change, once everybody knows of it: those who moved, or have
// another policy, are looked at again.
func (w *world) lookAgain(p *process) {
	if !w.homes.followed() {
		for _, p := range w.procs {
			w.do(p, "follow users", func(ctx context.Context) { p.followUsers(ctx) })
		}
	}
	for partition, unwoken := range w.unwoken {
		if unwoken {
			w.do(p, "retime", func(ctx context.Context) { w.unwoken[partition] = p.wakeAll(ctx, partition) != nil })
		}
	}
}

// serveAll has all processes ask for what is due in their hands.
func (w *world) serveAll(partition int) error {
	for number, p := range w.procs {
		for range 50 {
			if at, ok := p.stepper.Next(partition); !ok || at.After(time.Now()) {
				break
			}
			if err := w.does(move{Do: "serve", Proc: number, N: partition}); err != nil {
				return err
			}
		}
	}
	return nil
}

// does has a process do something to its end.
func (w *world) does(m move) error {
	w.lastOp++
	m.Op = w.lastOp
	if err := w.begin(m); err != nil {
		return err
	}
	w.goAll()
	return nil
}

// asynqPatience is how long after the end of its lease asynq leaves a task to its worker.
const asynqPatience = 30 * time.Second

// recoverTasks takes back what a dead process had pulled, as the server of asynq's does that runs beside in each
// process.
func (w *world) recoverTasks() {
	now := time.Now()
	w.peek(func(ctx context.Context, client *redis.Client) {
		for partition := range partitions {
			prefix := "asynq:{push-" + strconv.Itoa(partition) + "}:"
			before := strconv.FormatInt(now.Add(-asynqPatience).Unix(), 10)
			for _, id := range client.ZRangeArgs(ctx, redis.ZRangeArgs{
				Key: prefix + "lease", ByScore: true, Start: "-inf", Stop: before,
			}).Val() {
				client.LRem(ctx, prefix+"active", 0, id)
				client.ZRem(ctx, prefix+"lease", id)
				client.ZAdd(ctx, prefix+"retry", redis.Z{Score: float64(now.Unix()), Member: id})
				client.HSet(ctx, prefix+"t:"+id, "state", "retry")
			}
		}
	})
}

// peek asks Redis beside all steps.
func (w *world) peek(do func(ctx context.Context, client *redis.Client)) {
	w.redis.outside.do(func() {
		w.redis.mu.Lock()
		defer w.redis.mu.Unlock()
		do(context.Background(), w.redis.client)
	})
}

func (w *world) pending(partition int) int {
	n, paused := int64(0), int64(0)
	w.peek(func(ctx context.Context, client *redis.Client) {
		prefix := "asynq:{push-" + strconv.Itoa(partition) + "}:"
		pipe := client.Pipeline()
		length, rest := pipe.LLen(ctx, prefix+"pending"), pipe.Exists(ctx, prefix+"paused")
		_, _ = pipe.Exec(ctx) // a failure shows in what never ends
		n, paused = length.Val(), rest.Val()
	})
	if paused > 0 {
		return 0
	}
	return int(n)
}

// untilNext is how long until something is due: a slot, the end of a lease, a look of the sweeper.
func (w *world) untilNext() time.Duration {
	if len(w.live()) > 0 {
		return 250 * time.Millisecond
	}
	next := math.Inf(1)
	w.peek(func(ctx context.Context, client *redis.Client) {
		pipe := client.Pipeline()
		var micros, seconds []*redis.ZSliceCmd
		for partition := range partitions {
			prefix := "{push-" + strconv.Itoa(partition) + "}:"
			for _, key := range []string{"e", "y", "wakeups"} {
				micros = append(micros, pipe.ZRangeWithScores(ctx, "pacer:"+prefix+key, 0, 0))
			}
			for _, key := range []string{"scheduled", "retry", "lease"} {
				seconds = append(seconds, pipe.ZRangeWithScores(ctx, "asynq:"+prefix+key, 0, 0))
			}
		}
		_, _ = pipe.Exec(ctx) // as above
		for _, found := range micros {
			for _, z := range found.Val() {
				next = min(next, z.Score/1e6)
			}
		}
		for i, found := range seconds {
			for _, z := range found.Val() {
				if i%3 == 2 {
					z.Score += asynqPatience.Seconds() + 1
				}
				next = min(next, z.Score)
			}
		}
	})
	for _, p := range w.procs {
		for partition := range partitions {
			if at, ok := p.stepper.Next(partition); ok {
				next = min(next, float64(at.UnixMicro())/1e6)
			}
		}
	}
	now := float64(time.Now().UnixMicro()) / 1e6
	wait := 20 * time.Second
	if next-now < wait.Seconds() {
		wait = time.Duration((next - now) * float64(time.Second))
	}
	return max(wait+time.Millisecond, time.Second/2)
}

// allEnded reports whether everything has ended and nothing is left over.
func (w *world) allEnded() bool {
	return len(w.live()) == 0 && len(w.open()) == 0 && len(w.leftovers()) == 0
}

// open lists what was accepted and has not ended, in the store.
func (w *world) open() []string {
	var open []string
	for id, end := range w.ends() {
		if !end.ended {
			open = append(open, id)
		}
	}
	slices.Sort(open)
	return open
}

func (w *world) openBeside(down int) []string {
	return slices.DeleteFunc(w.open(), func(id string) bool {
		e := w.ledger.entries[id]
		return e == nil || !e.accepted || w.procs[0].agendas.PartitionOf(e.User) == down
	})
}

// leftovers lists what of the past still stands in Redis and in the outbox.
func (w *world) leftovers() []string {
	var left []string
	w.peek(func(ctx context.Context, client *redis.Client) {
		keys, err := client.Keys(ctx, "*").Result()
		if err != nil {
			left = append(left, err.Error())
			return
		}
		for _, key := range keys {
			if names := strings.SplitN(key, "}:", 2); len(names) == 2 && waiting(names[0], names[1]) {
				left = append(left, key)
			}
		}
	})
	if w.database != nil {
		const sql = "SELECT 'outbox', key FROM pacer.outbox"
		_ = w.database.ask(time.Now(), sql, func(values []any) { left = append(left, fmt.Sprint(values...)) })
	}
	slices.Sort(left)
	return left
}

// waiting reports whether a key is of something that is still to be done. The first part of it ends with a partition's
// name.
func waiting(prefix, name string) bool {
	if strings.HasPrefix(prefix, "asynq:") {
		return slices.Contains([]string{"pending", "scheduled", "retry", "active", "lease", "paused", "archived"},
			name) || strings.HasPrefix(name, "t:")
	}
	kind, _, of := strings.Cut(name, ":")
	if of {
		return slices.Contains([]string{"w", "a", "r", "x"}, kind)
	}
	return slices.Contains([]string{"e", "y", "o", "v", "z", "wakeups", "rebuild"}, kind)
}
