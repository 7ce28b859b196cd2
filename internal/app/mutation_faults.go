//go:build faults

package app

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

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
)

// mutation tells whether the environment FAULTS_MUTATIONS names the protection that is to be switched off.
//
//	no-sweep            nobody looks for ended leases and lost wake-ups
//	settle-once         a settlement that fails is not tried again, nor is a call to Redis, which may take a second
//	client-clock        scripts are told the time by the process instead of Redis
//	impatient-redis     calls to Redis are given up after 50 ms
//	impatient-postgres  statements are given up after 50 ms
//	impatient-targets   calls to webhooks are given up after 50 ms
//	impatient-api       requests to the API are given up after 50 ms
//	patient-accept      accepting waits for Postgres for a minute
//	no-send-timeout     a call to a webhook may take for ever
//	no-retry            a failed attempt is the last one
//	no-retry-after      a provider's Retry-After is ignored
//	dns-once            a target's address is asked for once, and kept
//
// Package store/postgres has more.
func mutation(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("FAULTS_MUTATIONS"), ","), name)
}

// impatience is how long an impatient process waits for an answer.
const impatience = 50 * time.Millisecond

func openRedisClient(options *redis.UniversalOptions) redis.UniversalClient {
	if mutation("settle-once") {
		options.MaxRetries, options.ReadTimeout = -1, time.Second
	}
	client := redis.NewUniversalClient(options)
	if mutation("client-clock") {
		client.AddHook(clientClock{})
	}
	if mutation("impatient-redis") {
		client.AddHook(impatient{})
	}
	return client
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

// tooLate fails a command whose answer took longer than impatience.
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

// tellTime writes the process's time into a script that is sent as text. A script that is sent by its digest is unknown
// to the server, since the text with which it got there was another; it is sent as text then.
func tellTime(cmd redis.Cmder) {
	args := cmd.Args()
	if len(args) < 2 || cmd.Name() != "eval" {
		return
	}
	if source, ok := args[1].(string); ok {
		now := time.Now().UnixMicro()
		args[1] = strings.ReplaceAll(source, "redis.call('TIME')",
			"{'"+strconv.FormatInt(now/1e6, 10)+"', '"+strconv.FormatInt(now%1e6, 10)+"'}")
	}
}

func mutateDatabase(config *pgxpool.Config) {
	if mutation("impatient-postgres") {
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatientConn{Conn: conn}, nil
		}
	}
}

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
	if wrote := c.wrote; err == nil && !wrote.IsZero() && time.Since(wrote) > impatience {
		_ = c.Close()
		return 0, os.ErrDeadlineExceeded
	}
	c.wrote = time.Time{}
	return n, err
}

func mutateTargets(config *httpsend.GuardedConfig) {
	switch {
	case mutation("impatient-targets"):
		config.Timeout = impatience
	case mutation("no-send-timeout"):
		config.Timeout = 24 * time.Hour
	}
	if server := os.Getenv("FAULTS_RESOLVER"); server != "" {
		config.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
			if err != nil || !mutation("dns-once") {
				return conn, err
			}
			return &rememberedAnswers{Conn: conn}, nil
		}}
	}
}

// nameAnswers are those of the name server to each question, without the first two bytes, which say which question it
// was.
var nameAnswers sync.Map

// rememberedAnswers is a connection to a name server over which each question is asked once and never again.
type rememberedAnswers struct {
	net.Conn
	question string
	id       [2]byte
	reply    []byte
}

// Write implements [net.Conn]: a question comes in one piece, its length first.
func (c *rememberedAnswers) Write(p []byte) (int, error) {
	c.id, c.question, c.reply = [2]byte(p[2:4]), string(p[4:]), nil
	known, _ := nameAnswers.Load(c.question)
	if body, ok := known.([]byte); ok {
		c.frame(body)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// frame makes an answer what is read next.
func (c *rememberedAnswers) frame(body []byte) {
	c.reply = binary.BigEndian.AppendUint16(nil, uint16(len(body)+2))
	c.reply = append(append(c.reply, c.id[:]...), body...)
}

// Read implements [net.Conn].
func (c *rememberedAnswers) Read(p []byte) (int, error) {
	if c.reply == nil {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		body := make([]byte, int(binary.BigEndian.Uint16(head))-2)
		if _, err := io.ReadFull(c.Conn, body); err != nil {
			return 0, err
		}
		nameAnswers.Store(c.question, body)
		c.frame(body)
	}
	n := copy(p, c.reply)
	c.reply = c.reply[n:]
	return n, nil
}

func mutateAPI(server *http.Server) *http.Server {
	if mutation("impatient-api") {
		server.ReadTimeout, server.ReadHeaderTimeout = impatience, impatience
	}
	return server
}

func mutateSenders(senders push.Registry) push.Registry {
	mutated := push.Registry{}
	for channel, sender := range senders {
		mutated[channel] = mutatedSender{sender}
	}
	return mutated
}

// mutatedSender lacks protections around a sender.
type mutatedSender struct{ push.Sender }

// Send implements [push.Sender].
func (s mutatedSender) Send(ctx context.Context, m push.Message) error {
	if mutation("no-send-timeout") {
		ctx = context.WithoutCancel(ctx)
	}
	err := s.Sender.Send(ctx, m)
	e := push.Classify(err)
	if e == nil {
		return nil
	}
	if mutation("no-retry") {
		e.Class = push.Permanent
	}
	if mutation("no-retry-after") {
		e.RetryAfter = 0
	}
	return e
}

func mutateStoreConfig(config storepostgres.Config) storepostgres.Config {
	if mutation("patient-accept") {
		config.AcceptTimeout = time.Minute
	}
	return config
}

func mutateStore(r store) store {
	if !mutation("settle-once") {
		return r
	}
	return &settlesOnce{store: r}
}

// settlesOnce is a store that answers the first failure of a settlement again and again.
type settlesOnce struct {
	store
	failed sync.Map
}

// Settle implements [dispatch.Store].
func (s *settlesOnce) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	before, _ := s.failed.Load(g)
	if err, failed := before.(error); failed {
		return dispatch.Settlement{}, err
	}
	settlement, err := s.store.Settle(ctx, g, o)
	if err != nil {
		s.failed.Store(g, err)
	}
	return settlement, err
}
