package chaos_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// clockKey holds the world's time in µs, which every script reads in place of the server's clock.
	clockKey = "chaos:now"
	// expiryKey is a sorted set of notifications' hashes that would expire: key → when, in µs.
	expiryKey = "chaos:expiry"
	// redisTimeout is how long a client waits for a reply of Redis.
	redisTimeout = 3 * time.Second
)

// clockSource stands before every script. The server's own clock must not count, nor times to live, which run on it.
const clockSource = `local function chaos_clock()
  local t = tonumber(redis.call('GET', '` + clockKey + `'))
  return { string.format('%.0f', math.floor(t / 1000000)), string.format('%.0f', t % 1000000) }
end
local function chaos_expire(key, ms)
  if not string.find(key, '}:n:', 1, true) then return end
  redis.call('ZADD', '` + expiryKey + `', redis.call('GET', '` + clockKey + `') + ms * 1000, key)
end
`

// server is the Redis of a world: one logical database of a real server, outside of the bubble.
type server struct {
	outside *outside
	client  *redis.Client

	mu sync.Mutex
	// now is the time that the server was told last.
	now time.Time
	// scripts holds, by the digest of a script, the script as it is run here; names what they are called.
	scripts, digests map[string]string
	names            map[string]string
	// sources holds the digests of sources that were met.
	sources map[string]string
	// identity is what INFO tells of who the server is; it changes when another takes its place.
	identity int
	// mutate replaces parts of scripts; mutated are those that were found.
	mutate  map[string]string
	mutated map[string]bool
}

func newServer(o *outside, client *redis.Client) *server {
	return &server{
		outside: o, client: client, scripts: map[string]string{}, digests: map[string]string{},
		sources: map[string]string{}, names: map[string]string{}, mutated: map[string]bool{},
	}
}

func digest(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// header finds the head of a file of Lua, which says what its script does and what its keys are.
var header = regexp.MustCompile(`(?m)^-- ([a-z]+) .*\n(?:-- .*\n)*--\n-- KEYS`)

// learn remembers a script, with the clock of the world in it.
func (s *server) learn(source string) string {
	name, known := s.sources[source]
	if !known {
		name = digest(source)
		s.sources[source] = name
		changed := strings.ReplaceAll(source, "redis.call('TIME')", "chaos_clock()")
		changed = strings.ReplaceAll(changed, "call('TIME')", "chaos_clock()")
		changed = strings.ReplaceAll(changed, "redis.call('PEXPIRE', ", "chaos_expire(")
		for old, mutated := range s.mutate {
			if strings.Contains(changed, old) {
				changed = strings.ReplaceAll(changed, old, mutated)
				s.mutated[old] = true
			}
		}
		// A first line that begins with #! tells Redis how to run it, and must stay the first.
		first := ""
		if strings.HasPrefix(changed, "#!") {
			first, changed, _ = strings.Cut(changed, "\n")
			first += "\n"
		}
		s.scripts[name] = first + clockSource + changed
		s.digests[name] = digest(s.scripts[name])
		s.names[name] = "script"
		for _, found := range header.FindAllStringSubmatch(source, -1) {
			s.names[name] = found[1]
		}
	}
	return name
}

// label names a command as a step.
func (s *server) label(cmd redis.Cmder) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := cmd.Args()
	name := strings.ToLower(fmt.Sprint(args[0]))
	key := ""
	if len(args) > 1 {
		key = fmt.Sprint(args[1])
	}
	switch name {
	case "eval":
		name, key = s.names[s.learn(key)], fmt.Sprint(args[3])
	case "evalsha":
		known, found := s.names[key]
		if !found {
			return "" // it will be asked again with its source
		}
		name, key = known, fmt.Sprint(args[3])
	}
	return "redis " + name + " " + key
}

// run has the server execute commands at a moment.
func (s *server) run(now time.Time, cmds ...redis.Cmder) error {
	var err error
	s.outside.do(func() { err = s.execute(now, cmds) })
	return err
}

func (s *server) execute(now time.Time, cmds []redis.Cmder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := context.Background()
	if now.After(s.now) {
		s.now = now
		if err := s.setClock(ctx); err != nil {
			return err
		}
	}
	if len(cmds) == 1 {
		return s.one(ctx, cmds[0])
	}
	pipe := s.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // it only queues
	}
	_, err := pipe.Exec(ctx)
	return err
}

func (s *server) setClock(ctx context.Context) error {
	if err := s.client.Set(ctx, clockKey, s.now.UnixMicro(), 0).Err(); err != nil {
		return fmt.Errorf("set the world's clock: %w", err)
	}
	return nil
}

// one executes a single command, scripts and what tells of the server's own clock and identity as this world has them.
func (s *server) one(ctx context.Context, cmd redis.Cmder) error {
	args := cmd.Args()
	switch strings.ToLower(fmt.Sprint(args[0])) {
	case "eval":
		return s.script(ctx, cmd, s.learn(fmt.Sprint(args[1])), args)
	case "evalsha":
		name := fmt.Sprint(args[1])
		if _, known := s.scripts[name]; !known {
			return s.client.Process(ctx, cmd) // the server doesn't know it either, and says so in its own words
		}
		return s.script(ctx, cmd, name, args)
	case "time":
		if t, ok := cmd.(*redis.TimeCmd); ok {
			t.SetVal(s.now)
			return nil
		}
	case "info":
		if t, ok := cmd.(*redis.StringCmd); ok {
			t.SetVal("run_id:" + strconv.Itoa(s.identity) + "\r\nmaster_replid:" + strconv.Itoa(s.identity) + "\r\n")
			return nil
		}
	}
	return s.client.Process(ctx, cmd)
}

// script runs the world's form of a script.
func (s *server) script(ctx context.Context, cmd redis.Cmder, name string, args []any) error {
	source := s.scripts[name]
	changed := append([]any{"evalsha", s.digests[name]}, args[2:]...)
	reply := redis.NewCmd(ctx, changed...)
	err := s.client.Process(ctx, reply)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		reply = redis.NewCmd(ctx, append([]any{"eval", source}, args[2:]...)...)
		err = s.client.Process(ctx, reply)
	}
	if out, ok := cmd.(*redis.Cmd); ok {
		out.SetVal(reply.Val())
	}
	if err != nil {
		cmd.SetErr(err)
	}
	return err
}

// copyOf is a command with the same arguments, for a reply that nobody gets.
func copyOf(cmds []redis.Cmder) []redis.Cmder {
	copies := make([]redis.Cmder, len(cmds))
	for i, cmd := range cmds {
		copies[i] = redis.NewCmd(context.Background(), cmd.Args()...)
	}
	return copies
}

// redisSteps makes the commands of a process's client steps of the world.
type redisSteps struct {
	w    *world
	proc *process
}

// newClient returns the client of a process. It never dials: its hook hands every command to the world's server.
func (w *world) newClient(p *process) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DisableIdentity: true})
	client.AddHook(redisSteps{w, p})
	return client
}

// DialHook implements redis.Hook.
func (s redisSteps) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("chaos: a command went past the world's hook")
	}
}

// ProcessHook implements redis.Hook.
func (s redisSteps) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := s.do(ctx, []redis.Cmder{cmd})
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s redisSteps) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := s.do(ctx, cmds)
		for _, cmd := range cmds {
			if err != nil && cmd.Err() == nil && isCut(err) {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func isCut(err error) bool {
	return errors.Is(err, errCut) || errors.Is(err, errLate) || errors.Is(err, errDead)
}

// do makes one step of commands that are sent together.
func (s redisSteps) do(ctx context.Context, cmds []redis.Cmder) error {
	label := s.w.redis.label(cmds[0])
	if label == "" {
		return s.w.redis.run(time.Now(), cmds...) // NOSCRIPT
	}
	if len(cmds) > 1 {
		label = "redis pipeline of " + strings.TrimPrefix(label, "redis ")
	}
	v := s.w.await(ctx, label)
	if v == made || v == twice || v == lost || v == lastAfter {
		if down, err := s.partly(cmds); down {
			return err
		}
	}
	switch v {
	case made:
		return s.w.redis.run(time.Now(), cmds...)
	case twice:
		_ = s.w.redis.run(time.Now(), copyOf(cmds)...) // its reply is lost
		return s.w.redis.run(time.Now(), cmds...)
	case lost:
		_ = s.w.redis.run(time.Now(), copyOf(cmds)...)
		return errCut
	case late:
		copies := copyOf(cmds)
		s.w.arriveLater(label, func() { _ = s.w.redis.run(time.Now(), copies...) })
		s.w.sleep(ctx, s.proc, redisTimeout)
		return errLate
	case lastBefore:
		s.proc.die()
		return errDead
	case lastAfter:
		_ = s.w.redis.run(time.Now(), copyOf(cmds)...)
		s.proc.die()
		return errDead
	case dead:
		return errDead
	case notMade, refused, throttled:
	}
	return errCut
}

// partly makes what does not concern a shard that is down, and reports whether anything does.
func (s redisSteps) partly(cmds []redis.Cmder) (bool, error) {
	if s.w.shardDown < 0 {
		return false, nil
	}
	tag := "{push-" + strconv.Itoa(s.w.shardDown) + "}"
	if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return concerns(cmd, tag) }) {
		return false, nil
	}
	s.w.count("shard-down redis")
	for _, cmd := range cmds {
		if concerns(cmd, tag) {
			cmd.SetErr(errors.New("CLUSTERDOWN The cluster is down"))
			continue
		}
		_ = s.w.redis.run(time.Now(), cmd) // the command has its own error
	}
	return true, firstError(cmds)
}

// concerns reports whether a command is about keys with a hash tag.
func concerns(cmd redis.Cmder, tag string) bool {
	args := cmd.Args()
	first, last := 1, 2
	if name := strings.ToLower(fmt.Sprint(args[0])); name == "eval" || name == "evalsha" {
		first, last = 3, 4
	}
	return len(args) >= last && strings.Contains(fmt.Sprint(args[first]), tag)
}

func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}
