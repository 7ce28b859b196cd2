package redisconn

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/settings"
)

// login is the user and password of new connections. Those that are open stay as they are: Redis asks only once.
type login struct {
	where atomic.Pointer[settings.Redis]
	open  Opener
}

func newLogin(where *settings.Redis, open Opener) *login {
	l := &login{open: open}
	l.where.Store(where)
	return l
}

// provide gives user and password to a new connection, in the form that the driver asks for.
func (l *login) provide(context.Context) (user, password string, err error) {
	options := l.where.Load().Options
	return options.Username, options.Password, nil
}

// errElsewhere refuses a URL that changes more than it may while the process runs.
var errElsewhere = errors.New("names another Redis or other options than before; only user and password may change " +
	"while a process runs: restart it")

// Renew has new connections use another user or password, once Redis has accepted them.
func (c *Conn) Renew(ctx context.Context, fresh *settings.Redis) error {
	before := c.login.where.Load()
	if !sameButLogin(before.Options, fresh.Options) {
		return fmt.Errorf("redis-url %w", errElsewhere)
	}
	options := *fresh.Options
	options.PoolSize, options.MinIdleConns = 1, 0
	client := c.login.open(&options)
	err := probe.Run(ctx, client, []string{probeKey}).Err()
	if closeErr := client.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if NotPermitted(err) {
		return RefuseRights(err)
	}
	if err != nil {
		return fmt.Errorf("Redis at %s can't be reached with the new user and password: %w", fresh, err) //nolint:staticcheck // a name
	}
	c.login.where.Store(fresh)
	return nil
}

// sameButLogin reports whether two URLs differ in user and password at most.
func sameButLogin(a, b *redis.UniversalOptions) bool {
	one, other := *a, *b
	one.Username, one.Password, other.Username, other.Password = "", "", "", ""
	return reflect.DeepEqual(one, other)
}
