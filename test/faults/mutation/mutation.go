//go:build faults

// Package mutation takes protections away from a dispatcher, so that a fault scenario can be seen to fail without them.
// Only programs built with the tag faults know it.
//
// The environment FAULTS_MUTATIONS names the protections:
//
//	no-sweep            nobody looks for ended leases and lost wake-ups
//	no-sweeper          the relay only rebuilds: what did not reach Redis, or what Redis ended, stays where it is
//	no-relay            there is no relay at all
//	settle-once         a settlement that fails is not tried again, nor is a call to Redis, which may take a second
//	client-clock        scripts are told the time by the process instead of Redis
//	impatient-redis     calls to Redis are given up after 50 ms
//	impatient-postgres  statements are given up after 50 ms
//	impatient-targets   calls to webhooks are given up after 50 ms
//	impatient-api       requests to the API are given up after 50 ms
//	no-send-timeout     a call to a webhook may take for ever
//	no-retry            a failed attempt is the last one
//	no-retry-after      a provider's Retry-After is ignored
//	dns-once            a target's address is looked up once, and kept
//
// What has no place for a hook, such as the conditions of a statement, the scenarios rewrite in the source.
package mutation

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
)

// Hooks take away the protections that the environment names.
func Hooks() app.Hooks {
	return app.Hooks{
		Hooks:   deployment.Hooks{Redis: openRedis, Database: mutateDatabase},
		Targets: mutateTargets, API: mutateAPI, Sender: mutateSender, Dispatch: mutateDispatch, Service: mutateService,
	}
}

// without reports whether a protection is to be taken away.
func without(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("FAULTS_MUTATIONS"), ","), name)
}

// impatience is how long an impatient process waits for a reply.
const impatience = 50 * time.Millisecond

func openRedis(options *redis.UniversalOptions) redis.UniversalClient {
	if without("settle-once") {
		options.MaxRetries, options.ReadTimeout = -1, time.Second
	}
	client := redis.NewUniversalClient(options)
	switch {
	case without("client-clock"):
		client.AddHook(clientClock{})
	case without("impatient-redis"):
		client.AddHook(impatient{})
	default:
		return client
	}
	// The shared pipeline writes a command before its hooks have run; this client has none.
	return struct{ redis.UniversalClient }{client}
}

// impatient gives every call to Redis a short time-out.
type impatient struct{}

// DialHook implements [redis.Hook].
func (impatient) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (impatient) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		start := time.Now()
		if err := next(ctx, cmd); err != nil {
			return err
		}
		return tooLate(start, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (impatient) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		start := time.Now()
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if cmd.Err() == nil {
				err = errors.Join(err, tooLate(start, cmd))
			}
		}
		return err
	}
}

// tooLate fails a command whose reply took longer than impatience.
func tooLate(start time.Time, cmd redis.Cmder) error {
	if time.Since(start) <= impatience {
		return nil
	}
	cmd.SetErr(context.DeadlineExceeded)
	return context.DeadlineExceeded
}

// clientClock replaces the server's clock by the process's in every script.
type clientClock struct{}

// DialHook implements [redis.Hook].
func (clientClock) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (clientClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		tellTime(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (clientClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			tellTime(cmd)
		}
		return next(ctx, cmds)
	}
}

// unknownScript is a digest that no script has.
var unknownScript = strings.Repeat("0", 40)

// tellTime writes the process's time into a script that is sent as text. One that is sent by its digest is made unknown
// to the server, whoever brought it there: it is sent as text then.
func tellTime(cmd redis.Cmder) {
	args := cmd.Args()
	if len(args) < 2 {
		return
	}
	if cmd.Name() == "evalsha" {
		args[1] = unknownScript
		return
	}
	if source, ok := args[1].(string); ok && cmd.Name() == "eval" {
		now := time.Now().UnixMicro()
		args[1] = strings.ReplaceAll(source, "redis.call('TIME')",
			"({'"+strconv.FormatInt(now/1e6, 10)+"', '"+strconv.FormatInt(now%1e6, 10)+"'})")
	}
}

func mutateDatabase(config *pgxpool.Config) {
	if without("impatient-postgres") {
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatientConn{Conn: conn}, nil
		}
	}
}

// begun is when the process began, patientAtStart for how long an impatient one waits for Postgres all the same: a slow
// machine is to come so far.
var begun = time.Now()

const patientAtStart = 3 * time.Second

// impatientConn fails a read that follows a write and takes longer than impatience.
type impatientConn struct {
	net.Conn
	mu    sync.Mutex
	wrote time.Time
}

// Write implements [net.Conn].
func (c *impatientConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.wrote = time.Now()
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *impatientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if wrote := c.wrote; err == nil && !wrote.IsZero() && time.Since(wrote) > impatience &&
		time.Since(begun) > patientAtStart {
		_ = c.Close()
		return 0, os.ErrDeadlineExceeded
	}
	c.wrote = time.Time{}
	return n, err
}

func mutateTargets(config *httpsend.GuardedConfig) {
	switch {
	case without("impatient-targets"):
		config.Timeout = impatience
	case without("no-send-timeout"):
		config.Timeout = 24 * time.Hour
	}
	if server := os.Getenv("FAULTS_RESOLVER"); server != "" {
		config.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
			if err != nil || !without("dns-once") {
				return conn, err
			}
			return &rememberedReplies{Conn: conn}, nil
		}}
	}
}

// nameReplies are those of the name server to each query, without the first two bytes, which identify the query.
var nameReplies sync.Map

// rememberedReplies is a connection to a name server over which each query is made once and never again.
type rememberedReplies struct {
	net.Conn
	query string
	id    [2]byte
	reply []byte
}

// Write implements [net.Conn]: a query comes in one piece, its length first.
func (c *rememberedReplies) Write(p []byte) (int, error) {
	c.id, c.query, c.reply = [2]byte(p[2:4]), string(p[4:]), nil
	known, _ := nameReplies.Load(c.query)
	if body, ok := known.([]byte); ok {
		c.frame(body)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// frame makes a reply what is read next.
func (c *rememberedReplies) frame(body []byte) {
	c.reply = binary.BigEndian.AppendUint16(nil, uint16(len(body)+2))
	c.reply = append(append(c.reply, c.id[:]...), body...)
}

// Read implements [net.Conn].
func (c *rememberedReplies) Read(p []byte) (int, error) {
	if c.reply == nil {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		body := make([]byte, int(binary.BigEndian.Uint16(head))-2)
		if _, err := io.ReadFull(c.Conn, body); err != nil {
			return 0, err
		}
		nameReplies.Store(c.query, body)
		c.frame(body)
	}
	n := copy(p, c.reply)
	c.reply = c.reply[n:]
	return n, nil
}

func mutateAPI(server *http.Server) {
	if without("impatient-api") {
		server.ReadTimeout = impatience
	}
}

func mutateSender(sender push.Sender) push.Sender { return mutatedSender{sender} }

// mutatedSender lacks protections around a sender.
type mutatedSender struct{ push.Sender }

// Send implements [push.Sender].
func (s mutatedSender) Send(ctx context.Context, m push.Message) error {
	if without("no-send-timeout") {
		ctx = context.WithoutCancel(ctx)
	}
	err := s.Sender.Send(ctx, m)
	e := push.Classify(err)
	if e == nil {
		return nil
	}
	if without("no-retry") {
		e.Class = push.Permanent
	}
	if without("no-retry-after") {
		e.RetryAfter = 0
	}
	return e
}

func mutateDispatch(store dispatch.Store) dispatch.Store {
	if !without("settle-once") {
		return store
	}
	return &settlesOnce{Store: store}
}

// settlesOnce is a store that returns the first failure of a settlement again and again.
type settlesOnce struct {
	dispatch.Store
	failed sync.Map
}

// Settle implements [dispatch.Store].
func (s *settlesOnce) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	before, _ := s.failed.Load(g)
	if err, failed := before.(error); failed {
		return dispatch.Settlement{}, err
	}
	settlement, err := s.Store.Settle(ctx, g, o)
	if err != nil {
		s.failed.Store(g, err)
	}
	return settlement, err
}

func mutateService(service app.Service) app.Service {
	switch service := service.(type) {
	case *dispatch.Sweeper:
		if without("no-sweep") {
			return idle{}
		}
	case *relay.Relay:
		if without("no-relay") {
			return idle{}
		}
		if without("no-sweeper") {
			return rebuilder{service}
		}
	}
	return service
}

// idle does nothing.
type idle struct{}

// Run implements [app.Service].
func (idle) Run(context.Context) {}

// rebuilder is a relay that only rebuilds the partitions that lost their state.
type rebuilder struct{ relay *relay.Relay }

// Run implements [app.Service].
func (r rebuilder) Run(ctx context.Context) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, _ = r.relay.RebuildLost(ctx) // the next round tries again
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
