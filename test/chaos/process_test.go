package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/queue"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/records"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	storeredis "github.com/pacer-notify/pacer/internal/store/redis"
)

// store is what the parts of a process ask of one.
type store interface {
	dispatch.Store
	intake.Store
	Cancel(ctx context.Context, id string) error
}

// process is one of the deployment, put together as internal/app does, but for the loops: the schedule says when each
// part does something.
type process struct {
	w      *world
	number int
	ctx    context.Context //nolint:containedctx // ends with the process
	end    context.CancelFunc

	client   *redis.Client
	pool     *pgxpool.Pool
	agendas  *agenda.Agendas
	queue    *queue.Client
	store    store
	postgres *storepostgres.Store
	relay    *relay.Relay
	intake   *intake.Intake
	stepper  *dispatch.Stepper
	sweeper  *dispatch.Sweeper
	control  control.Store
	follower *control.Follower
	homes    *preferences.Follower

	known atomic.Pointer[knowledge]
	// late is set once a grant came too late: for a while, later ones may come late too.
	late    atomic.Bool
	running sync.WaitGroup
	busy    sync.Map // the loops that are under way
	// wasPaused are the partitions that were paused at the last look, for resumeOnce.
	wasPaused [partitions]bool

	mu    sync.Mutex
	dead  bool
	links []*link
}

// sendTimeout and the leases are the product's own.
const (
	leaseTime = 15 * time.Second
	claimed   = 14 * time.Second
)

// newProcess starts one.
func (w *world) newProcess(number int) (*process, error) {
	p := &process{w: w, number: number}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.learns(knowledge{w.version, w.homes.at(time.Now()), time.Now()})
	p.client = w.newClient(p)
	log := slog.New(slog.DiscardHandler)
	var err error
	p.agendas, err = agenda.New(p.client, agenda.Config{
		Partitions: partitions, Settings: p.settings, Process: w.newName(), Guarded: w.Durable, Lease: leaseTime,
		Retention: w.retention(), Categories: w.atOnce, Personal: p.personal,
	})
	if err != nil {
		return nil, err
	}
	p.queue = queue.NewClient(p.client)
	p.store, p.control = storeredis.New(p.client, p.agendas), control.New(storeredis.NewRecords(p.client))
	if w.Durable {
		if err := p.openPostgres(log); err != nil {
			return nil, err
		}
	}
	p.intake = intake.New(intake.Config{Store: p.store, Rules: p, Log: log})
	cfg := dispatch.Config{
		Partitions: partitions, Settings: retries, Random: func() float64 { return 0.5 }, Stale: w.stale(), Log: log,
		Shown: func(string) (int, bool) { return 100, false },
	}
	p.stepper = dispatch.NewStepper(cfg,
		watched{p.store, p}, p.queue,
		push.Registry{notification.ChannelLog: provider{w, p}, pushChannel: provider{w, p}})
	p.sweeper = dispatch.NewSweeper(p.agendas, time.Second, nil, log)
	p.follower = control.NewFollower(p.control, p, partitions, log)
	return p, p.followHomes()
}

// stale is how late a grant is given back; the product's own unless that is switched off.
func (w *world) stale() time.Duration {
	if w.mutation == "late grants are used" {
		return time.Hour
	}
	return 0
}

// retention is as in internal/app.
func (w *world) retention() time.Duration {
	if w.Durable {
		return time.Minute
	}
	return 24 * time.Hour
}

func (p *process) openPostgres(log *slog.Logger) (err error) {
	if p.pool, err = p.w.newPool(p); err != nil {
		return err
	}
	p.postgres = storepostgres.New(p.pool, p.agendas, storepostgres.Config{
		// What is accepted two at a time is copied, whatever its ids.
		Log: log, CopyLeast: 2, MadeHere: func(string) bool { return true },
	})
	p.store, p.control = p.postgres, control.New(records.New(p.pool))
	p.relay = relay.New(p.postgres.Stores, relay.Config{
		Check: func(*notification.Notification) error { return nil }, Windows: p.w.longestWindow,
	})
	return nil
}

// relayRound runs a round of the relay.
func (p *process) relayRound(ctx context.Context) error {
	if p.w.mutation == "partitions are decided together" {
		if _, err := p.relay.RebuildLost(ctx); err != nil {
			return err // and nothing for the partitions that are well
		}
	}
	return p.relay.Round(ctx)
}

func (w *world) longestWindow(string) time.Duration {
	return max(seconds(max(w.Per, w.CapPer)), w.longest())
}

// retries are the settings of deliveries: eight attempts, and after the n-th a wait of n seconds.
func retries(string, notification.Channel) dispatch.Settings {
	retry := notification.Retry{MaxAttempts: 8}
	for n := range 7 {
		retry.Schedule = append(retry.Schedule, time.Duration(n+1)*time.Second)
	}
	return dispatch.Settings{DeliverySettings: notification.DeliverySettings{Retry: retry}}
}

// newName gives a process a name, which no other has and every run gives alike.
func (w *world) newName() string {
	w.started++
	return "process" + strconv.Itoa(w.started)
}

// settings are those of the policy that the process knows.
func (p *process) settings(user, category string) agenda.Settings {
	known := p.knowledge()
	found := agenda.Settings{
		Plan: p.w.planOf(category, known.version), MaxDefer: 24 * time.Hour,
		BypassFrom: notification.PriorityCritical, ExemptFrom: exemptFrom,
	}
	found.Plan.Boundaries = p.w.boundaries(user, known)
	if found.Plan.Closed = p.w.nightOf(user, category, known); found.Plan.Closed != nil {
		found.Plan.Spread = p.w.spread()
	}
	if p.w.Digest > 0 && category == "news" && known.version != 1 {
		found.Digest = &player.Digest{
			MaxItems: p.w.Digest, Alone: notification.PriorityHigh, Wait: time.Duration(p.w.Company) * time.Millisecond,
		}
	}
	if category == "urgent" {
		found.BypassFrom = notification.PriorityLow
	}
	return found
}

// atOnce are the categories whose settings are those of all users, if they are known to the agendas.
func (w *world) atOnce() []string {
	if !w.AtOnce {
		return nil
	}
	return []string{"chat", "news", "free", "urgent"}
}

// personal reports whether a user has other settings.
func (p *process) personal(user string) bool {
	return (p.w.Night > 0 || p.w.Daily > 0) && p.knowledge().away[user] && p.w.mutation != "who lives elsewhere is served as all are"
}

// CheckCategory, Life, MaxContent and CheckDelivery implement intake.Rules.
func (p *process) CheckCategory(string) error { return nil }

// Life implements intake.Rules.
func (p *process) Life(string, notification.Channel) time.Duration { return 24 * time.Hour }

// MaxContent implements intake.Rules.
func (p *process) MaxContent(notification.Channel) int { return notification.MaxContentBytes }

// CheckDelivery implements intake.Rules.
func (p *process) CheckDelivery(*notification.Notification) error { return nil }

// Reconcile implements control.Queues.
func (p *process) Reconcile(ctx context.Context, n int, shouldPause func(partition int) bool) ([]queue.State, error) {
	if p.w.mutation == "partitions resume once" {
		return nil, p.resumeOnce(ctx, shouldPause)
	}
	return p.queue.Reconcile(ctx, n, shouldPause)
}

// resumeOnce resumes a partition that is not paused any more at the first look, and never again.
func (p *process) resumeOnce(ctx context.Context, shouldPause func(partition int) bool) error {
	var faults []error
	for partition := range partitions {
		key := "asynq:{push-" + strconv.Itoa(partition) + "}:paused"
		switch {
		case shouldPause(partition):
			p.wasPaused[partition] = true
			faults = append(faults, p.client.Set(ctx, key, "pacer", 0).Err())
		case p.wasPaused[partition]:
			p.wasPaused[partition] = false
			faults = append(faults, p.client.Del(ctx, key).Err())
		}
	}
	return errors.Join(faults...)
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) addLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = append(p.links, l)
}

// die ends the process as kill -9 would: from now on nothing that it does has an effect, and its connections end.
func (p *process) die() {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return
	}
	p.dead = true
	links := p.links
	p.links = nil
	p.mu.Unlock()
	p.w.story(fmt.Sprintf("process %d dies", p.number))
	p.w.ledger.died(p)
	p.w.mu.Lock()
	p.w.deaths++
	p.w.mu.Unlock()
	p.end()
	p.w.steps.dropAll(p)
	for _, l := range links {
		l.mu.Lock()
		held := l.held != nil
		l.mu.Unlock()
		if !held {
			l.closeReal()
		}
		l.fail(errDead)
	}
}

// close waits for what the process still does after its death and frees what it holds.
func (p *process) close() {
	p.running.Wait()
	if p.postgres != nil {
		_ = p.postgres.Close() // it has nothing to tell
		p.pool.Close()
	}
	_ = p.client.Close() // it never had a connection
}

// wakeAll has everybody of a partition looked at again, as after a change of the policy.
func (p *process) wakeAll(ctx context.Context, partition int) error {
	return outlook.Of(p.agendas).EachUser(ctx, partition, func(users []string) error {
		return p.agendas.Wake(ctx, partition, users...)
	})
}
