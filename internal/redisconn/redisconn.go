// Package redisconn connects a process to the Redis of its deployment, however that is run, and refuses a Redis that
// pacer can't work on.
package redisconn

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
	"github.com/pacer-notify/pacer/internal/reach"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/settings"
)

// reachTimeout is how long a store may take to respond at start.
const reachTimeout = 10 * time.Second

// driverLog drops what the Redis driver logs by itself for every connection that it can't make: whoever wanted the
// connection reports the error.
type driverLog struct{}

// Printf implements the driver's logger.
func (driverLog) Printf(context.Context, string, ...any) {}

// quietDriver is done once: the driver has one logger for the whole process.
var quietDriver = sync.OnceFunc(func() { redis.SetLogger(driverLog{}) })

// Conn is the connection of a process to the Redis of its deployment.
type Conn struct {
	// Client has a connection for each caller; Pipe puts what many callers send at once into one pipeline.
	Client, Pipe redis.UniversalClient
	// Close ends the connection, and Redis with it where it runs in this process.
	Close func() error

	login *login // nil where Redis runs in this process
}

// Opener makes a client.
type Opener func(*redis.UniversalOptions) redis.UniversalClient

// Open connects to Redis, or runs one in this process when none is given. It waits until Redis responds, and refuses a
// Redis that would forget what it is given, is too old, or denies a command. The opener may be nil: it defaults to
// [redis.NewUniversalClient]; so may watch, which hears of the attempts to connect.
func Open(ctx context.Context, where *settings.Redis, open Opener, watch *reach.Store) (*Conn, error) {
	quietDriver()
	if where == nil {
		in := embedded.Start(ctx)
		return &Conn{Client: in.Client(), Pipe: in.Client(), Close: in.Close}, nil
	}
	if open == nil {
		open = redis.NewUniversalClient
	}
	options, login := *where.Options, newLogin(where, open)
	options.CredentialsProviderContext = login.provide
	connections := script.Watch(&options)
	options.Dialer = watch.Dial(options.Dialer)
	client := open(&options)
	if err := check(ctx, client, where.String()); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	pipe, err := pipeline(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &Conn{Client: client, Pipe: connections.On(pipe), Close: client.Close, login: login}, nil
}

// autoPipelined is what the clients of go-redis have and its interface has not.
type autoPipelined interface {
	AutoPipelineWithOptions(*redis.AutoPipelineOptions) (*redis.AutoPipeliner, error)
}

// pipeline puts what many goroutines send to a client at the same time into one pipeline. It lives as long as the
// client.
func pipeline(client redis.UniversalClient) (redis.UniversalClient, error) {
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

// check waits until Redis responds, and refuses one that would forget what it is given.
func check(ctx context.Context, client redis.UniversalClient, address string) error {
	var cause error // the latest that says more than that the time was up
	info, err := backoff.Retry(ctx, func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		info, err := client.Info(ctx).Result()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			cause = err
		}
		if NotPermitted(err) || loginRefused(err) {
			err = backoff.Permanent(err)
		}
		return info, err
	}, backoff.WithMaxElapsedTime(reachTimeout), backoff.WithBackOff(backoff.NewConstantBackOff(250*time.Millisecond)))
	if NotPermitted(err) {
		return RefuseRights(err)
	}
	if loginRefused(err) {
		return refusal.New("Redis at %s refuses the user or password of REDIS_URL (%v): write redis://USER:PASSWORD@HOST, "+
			"or redis://:PASSWORD@HOST for a password alone", address, err)
	}
	if errors.Is(err, context.DeadlineExceeded) && cause != nil {
		err = cause
	}
	if err != nil {
		return refusal.New("Redis at %s can't be reached (REDIS_URL): %v", address, err)
	}
	if version := Field(info, "redis_version"); olderThan7(version) {
		return refusal.New("Redis at %s is version %s, pacer needs 7.0 or later", address, version)
	}
	if evicts := EvictionPolicy(info); evicts != "" && evicts != "noeviction" {
		return refusal.New("Redis at %s evicts keys when it is full (maxmemory-policy %s), which loses notifications: set maxmemory-policy noeviction", address, evicts)
	}
	if err := probe.Run(ctx, client, []string{probeKey}).Err(); NotPermitted(err) {
		return RefuseRights(err)
	} else if err != nil {
		return fmt.Errorf("run a script on Redis: %w", err)
	}
	return nil
}

// probe is a script as all others are: whoever may run it may run them. It reads no key;
// probeKey only has to be one that the user may touch.
var probe = script.NewWhenFull(`return redis.call('TIME')[1]`)

const probeKey = "pacer:partitions"

// NotPermitted reports whether Redis does not let this user run a command, or touch a key or channel.
func NotPermitted(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }

// loginRefused reports whether Redis wants another user or password.
func loginRefused(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGPASS") || redis.HasErrorPrefix(err, "NOAUTH")
}

// RefuseRights names, in Redis's own words, what the user of REDIS_URL may not do.
func RefuseRights(err error) error {
	_, said, _ := strings.Cut(err.Error(), "NOPERM ")
	return refusal.New("the user of REDIS_URL lacks rights on Redis (%s): docs/operate.md lists those that pacer needs",
		strings.TrimSpace(said))
}

// olderThan7 reports whether a version is known to be too old: scripts say since 7.0 what they may do on a full Redis.
func olderThan7(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	number, err := strconv.Atoi(major)
	return err == nil && number < 7
}

// EvictionPolicy reads it from INFO, since CONFIG may be forbidden; empty when it is not told.
func EvictionPolicy(info string) string { return Field(info, "maxmemory_policy") }

// Field reads a field out of INFO; empty when it is not told.
func Field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			return value
		}
	}
	return ""
}
