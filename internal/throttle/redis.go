package throttle

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Functions is the Lua source of the limiter's functions (read_plan, decide, charge, refund, usage, …), for scripts that
// judge a plan together with state of their own. It must stand before them.
//
//go:embed limiter.lua
var Functions string

var (
	//go:embed allow.lua
	allowSource string
	//go:embed peek.lua
	peekSource string
	//go:embed refund.lua
	refundSource string
)

// Args appends the plan as the argument list that the Lua function read_plan reads.
func (p Plan) Args(args []any) []any {
	args = append(args, strconv.Itoa(int(p.Algorithm)), strconv.Itoa(len(p.Rules)+len(p.Cap)))
	for _, rules := range [...][]Rule{p.Rules, p.Cap} {
		for _, r := range rules {
			args = append(args, strconv.Itoa(r.Max), strconv.FormatInt(r.Per.Microseconds(), 10), strconv.Itoa(int(r.Kind)))
		}
	}
	return args
}

// StateKey is where the limiter keeps the windows of a category of a user, below a key prefix. Each way of counting has
// keys of its own, so that a change of the algorithm starts anew instead of meeting a key of another type.
func (p Plan) StateKey(prefix string, key Key) string {
	return prefix + stateLetters[p.Algorithm] + ":" + key.Category + ":" + key.User
}

var stateLetters = [...]string{Rolling: "l", FixedWindow: "f", TokenBucket: "b"}

// CapKey is where the limiter keeps the log of a user's cap.
func CapKey(prefix string, key Key) string { return prefix + "u:" + key.User }

// Redis is the limiter that processes share. Every call is one script on one slot, on the server's clock.
type Redis struct {
	client redis.Scripter
	prefix func(user string) string

	allow, peek, refund *redis.Script
	del                 func(ctx context.Context, keys ...string) error
}

// NewRedis makes a limiter on a Redis server or cluster. The keys of a user begin with prefix(user), which must carry
// a hash tag on a cluster, so that they share a slot.
func NewRedis(client redis.UniversalClient, prefix func(user string) string) *Redis {
	return &Redis{
		client: client,
		prefix: prefix,
		allow:  redis.NewScript(Functions + allowSource),
		peek:   redis.NewScript(Functions + peekSource),
		refund: redis.NewScript(Functions + refundSource),
		del:    func(ctx context.Context, keys ...string) error { return client.Del(ctx, keys...).Err() },
	}
}

func (l *Redis) keys(key Key, plan Plan) []string {
	prefix := l.prefix(key.User)
	return []string{plan.StateKey(prefix, key), CapKey(prefix, key)}
}

// Allow implements [Limiter].
func (l *Redis) Allow(ctx context.Context, key Key, plan Plan, token string) (Decision, error) {
	reply, err := l.allow.Run(ctx, l.client, l.keys(key, plan), plan.Args([]any{token})...).Int64Slice()
	if err != nil {
		return Decision{}, fmt.Errorf("ask the limiter for %s: %w", key.Category, err)
	}
	return Decision{Allowed: reply[0] == 1, At: Micros(reply[1]), Now: Micros(reply[2]), Rule: int(reply[3]) - 1}, nil
}

// Peek implements [Limiter].
func (l *Redis) Peek(ctx context.Context, key Key, plan Plan) (Usage, error) {
	reply, err := l.peek.Run(ctx, l.client, l.keys(key, plan), plan.Args(nil)...).Int64Slice()
	if err != nil {
		return Usage{}, fmt.Errorf("read the limiter's windows of %s: %w", key.Category, err)
	}
	return ParseUsage(plan, reply), nil
}

// ParseUsage reads the answer of the peek script: at, now, rule, then used and frees-at of each rule.
func ParseUsage(plan Plan, reply []int64) Usage {
	usage := Usage{Decision: Decision{
		Allowed: reply[0] <= reply[1], At: Micros(reply[0]), Now: Micros(reply[1]), Rule: int(reply[2]) - 1,
	}}
	for i, rule := range plan.All() {
		usage.Rules = append(usage.Rules, RuleUsage{Rule: rule, Used: int(reply[3+2*i]), FreesAt: Micros(reply[4+2*i])})
	}
	return usage
}

// Refund implements [Limiter].
func (l *Redis) Refund(ctx context.Context, key Key, plan Plan, token string, at Micros) (bool, error) {
	args := plan.Args([]any{token, strconv.FormatInt(int64(at), 10)})
	done, err := l.refund.Run(ctx, l.client, l.keys(key, plan), args...).Int64()
	if err != nil {
		return false, fmt.Errorf("refund an admission of %s: %w", key.Category, err)
	}
	return done == 1, nil
}

// Clear implements [Limiter].
func (l *Redis) Clear(ctx context.Context, key Key) error {
	prefix := l.prefix(key.User)
	keys := []string{CapKey(prefix, key)}
	for algorithm := range stateLetters {
		keys = append(keys, Plan{Algorithm: Algorithm(algorithm)}.StateKey(prefix, key))
	}
	if err := l.del(ctx, keys...); err != nil {
		return fmt.Errorf("clear the windows of %s: %w", key.Category, err)
	}
	return nil
}
