package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// move is one decision of a schedule. A schedule is a list of them, one line of JSON each; moves that find nothing to
// act on do nothing, so that a schedule stays one when some are taken out.
type move struct {
	Do string `json:"do"`
	// Op is the operation that begins, or goes on; Proc the process that it is of.
	Op   int `json:"op,omitempty"`
	Proc int `json:"proc,omitempty"`
	// N is how many steps, which partition, which version, how many ms: what the move is about.
	N int `json:"n,omitempty"`
	// Verdict is what a fault is.
	Verdict verdict `json:"verdict,omitempty"`
	// Step is how the label of the step begins that an operation is to stop at.
	Step  string `json:"step,omitempty"`
	ID    string `json:"id,omitempty"`
	Items []item `json:"items,omitempty"`
}

// String is the move's line.
func (m move) String() string {
	text, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// play makes one move.
func (w *world) play(m move) error {
	switch m.Do {
	case "go":
		w.goOn(m.Op, m.N)
	case "until":
		w.goUntil(m.Op, m.Step)
	case "fault":
		if s := w.steps.first(m.Op); s != nil {
			w.decide(s, allowed(s, m.Verdict))
			w.quiet()
		}
	case "pass":
		w.story(fmt.Sprintf("%d ms pass", m.N))
		w.pass(time.Duration(m.N) * time.Millisecond)
	case "crash":
		w.procs[m.Proc].die()
		w.count("crash process")
		w.quiet()
	case "restart":
		return w.restart(m.Proc)
	case "arrive":
		w.arrive()
	case "lose":
		w.lose(m.N)
	case "evict":
		w.evict(m.N)
	case "unqueue":
		w.unqueue(m.N, m.Step)
	case "shard":
		w.shard(m.N)
	default:
		return w.begin(m)
	}
	return nil
}

// allowed is the verdict, or the nearest that a step of its kind knows.
func allowed(s *step, v verdict) verdict {
	provider := storeOf(s.label) == "provider"
	switch v {
	case refused, throttled:
		if !provider {
			return notMade
		}
	case twice:
		if storeOf(s.label) != "redis" {
			return lost
		}
	case made, notMade, lost, late, lastBefore, lastAfter, dead:
	}
	return v
}

// shard takes the Redis of a partition away; a negative number brings it back.
func (w *world) shard(partition int) {
	if partition < 0 {
		w.story("the shard is back")
	} else {
		w.story(fmt.Sprintf("the shard of partition %d goes away", partition))
		w.count("shard-down")
	}
	w.shardDown = max(partition, -1)
}

// restart starts a process again that has died.
func (w *world) restart(number int) error {
	if !w.procs[number].isDead() {
		return nil
	}
	w.story(fmt.Sprintf("process %d starts again", number))
	old := w.procs[number]
	p, err := w.newProcess(number)
	if err != nil {
		return err
	}
	w.procs[number] = p
	w.graves = append(w.graves, old)
	return nil
}

// begin has a process begin something.
func (w *world) begin(m move) error {
	p := w.procs[m.Proc]
	name := m.Do
	var do func(ctx context.Context, op *operation)
	switch m.Do {
	case "accept":
		name = fmt.Sprintf("accept %s", idsOf(m.Items))
		do = func(ctx context.Context, _ *operation) { p.accept(ctx, m.Items) }
	case "pull", "grab", "serve":
		name = fmt.Sprintf("%s partition %d", m.Do, m.N)
		do = func(ctx context.Context, _ *operation) {
			p.readHomes(knowsWithin)
			p.work(ctx, m.N, m.Do)
		}
	case "release":
		name = fmt.Sprintf("release partition %d", m.N)
		do = func(ctx context.Context, _ *operation) { p.stepper.Release(ctx, m.N) }
	case "sweep":
		do = func(ctx context.Context, _ *operation) { _ = p.sweeper.Sweep(ctx) } // it goes on trying
	case "forward":
		do = func(ctx context.Context, _ *operation) { p.forward(ctx) }
	case "relay":
		do = func(ctx context.Context, _ *operation) {
			if p.relay != nil {
				_ = p.relayRound(ctx) // likewise
			}
		}
	case "rebuild":
		w.mu.Lock()
		w.rebuilt = true
		w.mu.Unlock()
		do = func(ctx context.Context, _ *operation) {
			if p.relay != nil {
				_, _ = p.relay.Rebuild(ctx) // an operator would look, and do it again
			}
		}
	case "cancel":
		name = "cancel " + m.ID
		do = func(ctx context.Context, _ *operation) { p.cancel(ctx, m.ID) }
	case "optout", "optin":
		name = m.Do + " " + m.ID
		do = func(ctx context.Context, _ *operation) { p.prefer(ctx, m.ID, m.Do == "optout") }
	case "policy":
		name = "policy " + strconv.Itoa(m.N)
		do = func(ctx context.Context, _ *operation) { p.adopt(ctx, m.N) }
	case "pause", "resume":
		name = m.Do + " partition " + strconv.Itoa(m.N)
		do = func(ctx context.Context, _ *operation) { p.pause(ctx, m.N, m.Do == "pause") }
	case "follow":
		do = func(ctx context.Context, _ *operation) {
			_ = p.follower.Refresh(ctx) // it looks again
			p.followUsers(ctx)
		}
	case "move":
		name = fmt.Sprintf("%s moves to %d", m.ID, m.N)
		do = func(ctx context.Context, _ *operation) { p.move(ctx, m.ID, m.N == 1) }
	default:
		return fmt.Errorf("unknown move %s", m)
	}
	if slices.Contains(loops, m.Do) {
		do = p.alone(m.Do, do)
	}
	w.start(m.Op, p, name, do)
	return nil
}

// loops are what a process does over and over, never twice at once.
var loops = []string{"sweep", "forward", "relay", "follow"}

// alone does nothing while the process is at it already.
func (p *process) alone(what string, do func(context.Context, *operation)) func(context.Context, *operation) {
	return func(ctx context.Context, op *operation) {
		if _, busy := p.busy.LoadOrStore(what, true); busy {
			return
		}
		defer p.busy.Delete(what)
		do(ctx, op)
	}
}

func idsOf(items []item) []string {
	var ids []string
	for _, it := range items {
		ids = append(ids, it.ID)
	}
	return ids
}

// accept is what a producer does through a process's API.
func (p *process) accept(ctx context.Context, items []item) {
	entries := p.w.ledger.asked(items)
	var batch []intake.Request
	for _, e := range entries {
		batch = append(batch, intake.Request{Notification: notification.Notification{
			ID: e.ID, UserID: e.User, Category: e.Category, Channel: e.channel(), Title: e.ID, To: "log",
			Priority: notification.Priority(e.Priority), SendAt: e.sendAt, ExpiresAt: e.expiresAt,
			CollapseKey: e.Collapse,
		}})
	}
	results, err := p.intake.Accept(ctx, batch)
	if err != nil || p.isDead() {
		return
	}
	for i, r := range results {
		if r.Err != nil {
			p.w.story(fmt.Sprintf("%s is refused: %v", entries[i].ID, r.Err))
			// One that is locked was not accepted: its producer tries again, as after an error.
			if _, locked := errors.AsType[*notification.LockedError](r.Err); entries[i].expiresAt.IsZero() && !locked {
				p.w.ledger.breaks("P1: %s is refused: %v", entries[i].ID, r.Err)
			}
			continue
		}
		p.w.ledger.accepted(entries[i])
	}
}

// grabbed is how many wake-ups a process grabs at once.
const grabbed = 4

// work makes rounds of a partition: to "serve" asks for what is in hand, to "grab" takes wake-ups and leaves them
// there, and to "pull" takes one and asks for it. It ends when all that was granted is delivered.
func (p *process) work(ctx context.Context, partition int, how string) {
	deliveries, n := sync.WaitGroup{}, 0
	defer deliveries.Wait()
	beside := func(deliver func()) {
		n++ // one begins after the other, so that every run is the same
		wait := time.Duration(n) * time.Microsecond
		deliveries.Go(func() {
			time.Sleep(wait) //nolint:forbidigo // the bubble's clock
			deliver()
		})
	}
	pulls := map[string][]int{"pull": {1, 0}, "grab": {grabbed}, "serve": {0}}[how]
	for _, pull := range pulls {
		if err := p.stepper.Round(ctx, partition, pull, beside); err != nil {
			return // the loop of a partition would try again
		}
	}
}

// forward moves the wake-ups whose time has come into the queues.
func (p *process) forward(ctx context.Context) {
	for partition := range partitions {
		_, _ = p.queue.Forward(ctx, partition) // it goes on trying
	}
}

func (p *process) cancel(ctx context.Context, id string) {
	p.w.ledger.mu.Lock()
	if e := p.w.ledger.entries[id]; e != nil {
		e.cancelled = true
	}
	p.w.ledger.mu.Unlock()
	_ = p.store.Cancel(ctx, id) // whether it was in time shows in the end
}

// prefer has a user opt out of chat, or in again.
func (p *process) prefer(ctx context.Context, user string, out bool) {
	if p.postgres == nil {
		return
	}
	if !out {
		_ = p.postgres.ClearPreferences(ctx, user) // once more in the end
		return
	}
	p.w.ledger.mu.Lock()
	p.w.ledger.optOuts[user] = true
	p.w.ledger.mu.Unlock()
	_ = p.postgres.SetPreferences(ctx, user, &notification.Preferences{OptOutCategories: []string{"chat"}},
		notification.AnyVersion) // likewise
}

// adopt has the process know a version of the policy, and look at all users again. What fails is done again in the end,
// as in a pass of the product's.
func (p *process) adopt(ctx context.Context, version int) {
	p.w.mu.Lock()
	p.w.version = version
	p.learns(knowledge{version, p.knowledge().away, p.knowledge().read})
	p.w.mu.Unlock()
	for partition := range partitions {
		_ = p.wakeAll(ctx, partition)
	}
}

// pause is what an operator does through a process's ops pages.
func (p *process) pause(ctx context.Context, partition int, paused bool) {
	subject := control.Subject{Kind: control.Partition, Name: strconv.Itoa(partition)}
	var err error
	if paused {
		p.w.mu.Lock()
		p.w.paused[partition] = true
		p.w.mu.Unlock()
		err = p.control.Pause(ctx, control.Pause{Subject: subject, By: "chaos"})
	} else {
		_, err = p.control.Resume(ctx, subject)
	}
	if err == nil {
		_ = p.follower.Refresh(ctx) // every process looks again
	}
}
