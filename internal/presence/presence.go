// Package presence knows which processes of a deployment are alive. Each process writes a short-lived entry on Redis
// and renews it; anybody may list the entries.
package presence

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/stats"
)

// Process is one process of the deployment.
type Process struct {
	stats.Process
	// ClockAhead is how many seconds its clock is ahead of Redis's.
	ClockAhead float64 `json:"clock_ahead_seconds"`
	// Report is what the process tells of itself besides, in a form of its caller's.
	Report json.RawMessage `json:"report,omitempty"`
}

// Gone is a process whose entry has ended, and that did not say that it stops: it died, stands still, or does not reach
// Redis.
type Gone struct {
	ID string    `json:"id"`
	At time.Time `json:"at"` // when it was missed
}

const (
	// prefix of the keys; the tag keeps them in one slot.
	prefix = "pacer:{processes}:"
	index  = prefix + "all"
	gone   = prefix + "gone" // a sorted set of ids by the second in which each was missed

	interval = 2 * time.Second
	// life of an entry that nobody renews.
	life = 5 * interval
	// goneLife is how long a process that is gone is told of.
	goneLife = 15 * time.Minute
)

// Announcer keeps one process listed.
type Announcer struct {
	client   redis.UniversalClient
	self     Process
	inFlight func() int
	report   func() any // nil without
	log      *slog.Logger
}

// NewAnnouncer makes an Announcer; inFlight gives the process's load when it is asked.
func NewAnnouncer(client redis.UniversalClient, host string, roles []string, inFlight func() int,
	log *slog.Logger,
) *Announcer {
	return &Announcer{
		client: client, inFlight: inFlight, log: log,
		self: Process{Process: stats.Process{
			ID: host + "-" + rand.Text()[:8], Host: host, Roles: roles,
			Since: time.Now().UTC().Truncate(time.Second),
		}},
	}
}

// Reporting has the entry hold what report gives at each renewal. It must be called before Run.
func (a *Announcer) Reporting(report func() any) { a.report = report }

// ID names the process.
func (a *Announcer) ID() string { return a.self.ID }

// Run keeps the process listed until ctx ends, and then takes it off the list.
func (a *Announcer) Run(ctx context.Context) {
	ticker := beat.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := a.Announce(ctx); err != nil && ctx.Err() == nil {
			a.log.DebugContext(ctx, "could not renew this process's entry in the list of processes; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
			a.withdraw(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
			ticker.Next()
		}
	}
}

// Announce renews the entry once.
func (a *Announcer) Announce(ctx context.Context) error {
	self := a.self
	self.InFlight = a.inFlight()
	self.ClockAhead = a.clockAhead(ctx)
	if a.report != nil {
		report, err := json.Marshal(a.report())
		if err != nil {
			return fmt.Errorf("encode the report of process %s: %w", self.ID, err)
		}
		self.Report = report
	}
	entry, err := json.Marshal(self)
	if err != nil {
		return fmt.Errorf("encode the entry of process %s: %w", self.ID, err)
	}
	pipe := a.client.TxPipeline()
	pipe.Set(ctx, prefix+self.ID, entry, life)
	pipe.SAdd(ctx, index, self.ID)
	if _, err := pipe.Exec(ctx); err != nil {
		// A full Redis takes no new entry; then the last one goes on, so that the process does not seem dead.
		_ = a.client.Expire(ctx, prefix+self.ID, life).Err() // the first error says it all
		return fmt.Errorf("write the entry of process %s: %w", self.ID, err)
	}
	return nil
}

// clockAhead is by how many seconds this process's clock is ahead of Redis's; 0 when Redis does not say.
func (a *Announcer) clockAhead(ctx context.Context) float64 {
	asked := time.Now()
	theirs, err := a.client.Time(ctx).Result()
	if err != nil {
		return 0
	}
	return asked.Add(time.Since(asked) / 2).Sub(theirs).Seconds()
}

func (a *Announcer) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	pipe := a.client.TxPipeline()
	pipe.Del(ctx, prefix+a.self.ID)
	pipe.SRem(ctx, index, a.self.ID)
	pipe.ZRem(ctx, gone, a.self.ID) // if it was missed for a while
	if _, err := pipe.Exec(ctx); err != nil {
		a.log.DebugContext(ctx, "could not take this process off the list of processes; its entry expires by itself", "error", err)
	}
}

// List returns the processes that are alive, and forgets those whose entry has ended.
func List(ctx context.Context, client redis.UniversalClient) ([]Process, error) {
	ids, err := client.SMembers(ctx, index).Result()
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = prefix + id
	}
	entries, err := client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("read the processes' entries: %w", err)
	}
	processes := make([]Process, 0, len(ids))
	for i, entry := range entries {
		text, alive := entry.(string)
		if !alive {
			_ = miss(ctx, client, ids[i]) // when another look comes between, or Redis is full, a later look does
			continue
		}
		var p Process
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return nil, fmt.Errorf("read the entry of process %s: %w", ids[i], err)
		}
		processes = append(processes, p)
	}
	return processes, nil
}

// Running returns a process that runs: it sees the process renew its entry. It waits for the entries of those who died,
// or could not take themselves off the list, to end, which lasts up to ten seconds. ID is empty when nobody runs.
func Running(ctx context.Context, client redis.UniversalClient) (Process, error) {
	ticker := time.NewTicker(interval / 8)
	defer ticker.Stop()
	left := map[string]time.Duration{} // how long each entry had to live when it was looked at
	for {
		processes, err := List(ctx, client)
		if err != nil || len(processes) == 0 {
			return Process{}, err
		}
		for _, p := range processes {
			now, err := client.PTTL(ctx, prefix+p.ID).Result()
			if err != nil {
				return Process{}, fmt.Errorf("read how long the entry of process %s has to live: %w", p.ID, err)
			}
			if before, seen := left[p.ID]; seen && now > before {
				return p, nil
			}
			left[p.ID] = now
		}
		select {
		case <-ctx.Done():
			return Process{}, ctx.Err()
		case <-ticker.C:
		}
	}
}

// Alive returns the processes that are alive, without their reports.
func Alive(ctx context.Context, client redis.UniversalClient) ([]stats.Process, error) {
	listed, err := List(ctx, client)
	if err != nil {
		return nil, err
	}
	processes := make([]stats.Process, len(listed))
	for i, p := range listed {
		processes[i] = p.Process
	}
	return processes, nil
}

// miss takes a process off the list, and notes that it is gone; unless it has stopped or come back meanwhile.
func miss(ctx context.Context, client redis.UniversalClient, id string) error {
	return client.Watch(ctx, func(tx *redis.Tx) error {
		listed, err := tx.SIsMember(ctx, index, id).Result()
		if err != nil || !listed || tx.Exists(ctx, prefix+id).Val() > 0 {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.SRem(ctx, index, id)
			pipe.ZAdd(ctx, gone, redis.Z{Member: id, Score: float64(time.Now().Unix())})
			pipe.ZRemRangeByScore(ctx, gone, "-inf", strconv.FormatInt(time.Now().Add(-goneLife).Unix(), 10))
			pipe.Expire(ctx, gone, goneLife)
			return nil
		})
		return err
	}, index, prefix+id)
}

// Missing returns the processes that are gone, apart from those that came back, which are among alive.
func Missing(ctx context.Context, client redis.UniversalClient, alive []Process) ([]Gone, error) {
	since := strconv.FormatInt(time.Now().Add(-goneLife).Unix(), 10)
	ids, err := client.ZRangeByScoreWithScores(ctx, gone, &redis.ZRangeBy{Min: since, Max: "+inf", Count: 20}).Result()
	if err != nil {
		return nil, fmt.Errorf("list the processes that are gone: %w", err)
	}
	var missing []Gone
	for _, z := range ids {
		id, _ := z.Member.(string)
		if !slices.ContainsFunc(alive, func(p Process) bool { return p.ID == id }) {
			missing = append(missing, Gone{ID: id, At: time.Unix(int64(z.Score), 0).UTC()})
		}
	}
	return missing, nil
}
