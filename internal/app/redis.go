package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/embedded"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/settings"
)

// RefusalError says why a process does not start although nothing is broken: a setting, or what it was pointed at, is
// not as it must be. Programs exit with code 2 on it.
type RefusalError struct{ Reason string }

// Error is one sentence.
func (e *RefusalError) Error() string { return e.Reason }

func refuse(format string, args ...any) error {
	return &RefusalError{Reason: fmt.Sprintf(format, args...)}
}

// reachTimeout is how long a store may take to answer at start.
const reachTimeout = 10 * time.Second

const (
	// partitionsKey holds how many partitions the deployment has.
	partitionsKey = "pacer:partitions"
	// policyKey holds the text of the policy in force, for producers that write to the queue themselves.
	policyKey = "pacer:policy"
)

// driverLog takes what the Redis driver prints by itself, of every connection that it can't make: what matters of that
// is told by whoever wanted the connection.
type driverLog struct{}

// Printf implements the driver's logger.
func (driverLog) Printf(context.Context, string, ...any) {}

// quietDriver is done once: the driver has one logger for the whole process.
var quietDriver = sync.OnceFunc(func() { redis.SetLogger(driverLog{}) })

// redisConnection is the Redis of a deployment, however it is run.
type redisConnection struct {
	// client has a connection for each caller; pipe puts what many callers send at once into one pipeline.
	client, pipe redis.UniversalClient
	close        func() error
}

// openRedis connects to Redis, or runs one in this process when none is given.
func openRedis(ctx context.Context, where *settings.Redis) (*redisConnection, error) {
	quietDriver()
	if where == nil {
		in := embedded.Start(ctx)
		return &redisConnection{client: in.Client(), pipe: in.Client(), close: in.Close}, nil
	}
	options := *where.Options
	connections := script.Watch(&options)
	client := mutateRedis(redis.NewUniversalClient, &options)
	s := &redisConnection{client: client, close: client.Close}
	if err := s.check(ctx, where.String()); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	pipe, err := Pipeline(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.pipe = connections.On(pipe)
	return s, nil
}

// autoPipelined is what the clients of go-redis have and its interface has not.
type autoPipelined interface {
	AutoPipelineWithOptions(*redis.AutoPipelineOptions) (*redis.AutoPipeliner, error)
}

// Pipeline puts what many goroutines send to a client at the same time into one pipeline. It lives as long as the
// client.
func Pipeline(client redis.UniversalClient) (redis.UniversalClient, error) {
	pipelined, ok := client.(autoPipelined)
	if !ok {
		return client, nil
	}
	options := redis.DefaultBlockingAutoPipelineOptions()
	options.FullDuplex = true
	pipe, err := pipelined.AutoPipelineWithOptions(options)
	if err != nil {
		return nil, fmt.Errorf("set up the shared pipeline to Redis: %w", err)
	}
	return pipe, nil
}

// check waits until Redis answers, and refuses one that would forget what it was given.
func (s *redisConnection) check(ctx context.Context, address string) error {
	info, err := backoff.Retry(ctx, func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		info, err := s.client.Info(ctx).Result()
		if notPermitted(err) {
			err = backoff.Permanent(err)
		}
		return info, err
	}, backoff.WithMaxElapsedTime(reachTimeout), backoff.WithBackOff(backoff.NewConstantBackOff(250*time.Millisecond)))
	if notPermitted(err) {
		return refusedRights(err)
	}
	if err != nil {
		return refuse("Redis at %s can't be reached: %v", address, err)
	}
	if version := fieldOf(info, "redis_version"); olderThan7(version) {
		return refuse("Redis at %s is version %s, pacer needs 7.0 or later", address, version)
	}
	if evicts := evictionPolicy(info); evicts != "" && evicts != "noeviction" {
		return refuse("Redis at %s evicts keys when it is full (maxmemory-policy %s), which loses notifications: set maxmemory-policy noeviction", address, evicts)
	}
	if err := probe.Run(ctx, s.client, []string{partitionsKey}).Err(); notPermitted(err) {
		return refusedRights(err)
	} else if err != nil {
		return fmt.Errorf("run a script on Redis: %w", err)
	}
	return nil
}

// probe is a script as all others are: whoever may run it may run them.
var probe = script.NewWhenFull(`return redis.call('TIME')[1]`)

// notPermitted tells whether Redis does not let this user run a command, or touch a key or channel.
func notPermitted(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }

// refusedRights names, in Redis's own words, what the user of REDIS_URL may not do.
func refusedRights(err error) error {
	_, said, _ := strings.Cut(err.Error(), "NOPERM ")
	return refuse("the user of REDIS_URL lacks rights on Redis (%s): docs/operate.md lists those that pacer needs",
		strings.TrimSpace(said))
}

// olderThan7 tells whether a version is known to be too old: scripts say since 7.0 what they may do on a full Redis.
func olderThan7(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	number, err := strconv.Atoi(major)
	return err == nil && number < 7
}

// evictionPolicy reads it from INFO, since CONFIG may be forbidden; empty when it is not told.
func evictionPolicy(info string) string { return fieldOf(info, "maxmemory_policy") }

// fieldOf reads a field out of INFO; empty when it is not told.
func fieldOf(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			return value
		}
	}
	return ""
}

// agreeOnPartitions keeps one number of partitions per deployment: the first process writes it, others must have the
// same.
func (s *redisConnection) agreeOnPartitions(ctx context.Context, partitions int) error {
	if err := s.client.SetNX(ctx, partitionsKey, partitions, 0).Err(); err != nil {
		return fmt.Errorf("write the number of partitions: %w", err)
	}
	stored, err := s.partitions(ctx)
	if err != nil {
		return err
	}
	if stored != partitions {
		return refuse("this deployment has %d partitions, --partitions says %d: every process must use the same number", stored,
			partitions)
	}
	return nil
}

// partitions reads the deployment's number of partitions; 0 when no process has started yet.
func (s *redisConnection) partitions(ctx context.Context) (int, error) {
	text, err := s.client.Get(ctx, partitionsKey).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the number of partitions: %w", err)
	}
	partitions, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read the number of partitions: %w", err)
	}
	return partitions, nil
}

// refuseTicks refuses a Redis in which an earlier version has notifications waiting, which nobody would wake here.
func (a *App) refuseTicks(ctx context.Context) error {
	if a.cfg.Setup.Embedded() {
		return nil
	}
	ticks, err := a.agendas.HoldsTicks(ctx)
	if err != nil {
		return err
	}
	if ticks {
		return refuse("this Redis holds notifications that an earlier version of pacer accepted and this one does not read: " +
			"start that version again, accept nothing more, and wait until it has delivered what waits")
	}
	return nil
}
