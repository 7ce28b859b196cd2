package throttle

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/script"
)

// Redis is the limiter that processes share. Every call is one script on one slot, on the server's clock. Requests that
// come while others are under way share one script.
type Redis struct {
	client redis.UniversalClient
	prefix func(user string) string

	allow, spend, peek, refund *script.Script

	// batchers are three, chosen by user, so that one script can run while another is sent or its reply is read.
	batchers [3]*batch.Batcher[allowRequest, allowResult]
}

// NewRedis makes a limiter on a Redis server or cluster. The keys of a user begin with prefix(user). On a cluster that
// must hold a hash tag, so that they share a slot.
func NewRedis(client redis.UniversalClient, prefix func(user string) string) *Redis {
	return newRedis(client, prefix, "")
}

// newRedis is NewRedis with Lua before every script. Tests use it to replace the server's clock.
func newRedis(client redis.UniversalClient, prefix func(user string) string, before string) *Redis {
	r := &Redis{
		client: client,
		prefix: prefix,
		allow:  script.New(before + LogFunctions + DecideFunctions + lua("admit", "scripts/allow_batch")),
		spend:  script.New(before + LogFunctions + DecideFunctions + lua("admit", "usage", "scripts/spend")),
		peek:   script.NewWhenFull(before + LogFunctions + peekFunctions + lua("usage", "scripts/peek")),
		refund: script.NewWhenFull(before + LogFunctions + peekFunctions + lua("refund", "scripts/refund")),
	}
	for i := range r.batchers {
		r.batchers[i] = batch.New(maxAllowBatch, r.allowBatch)
	}
	return r
}

func (r *Redis) keys(key Key, plan Plan) []string {
	prefix := r.prefix(key.User)
	keys := []string{plan.StateKey(prefix, key), CapKey(prefix, key)}
	for _, rules := range plan.NamedCaps() {
		keys = append(keys, NamedKey(prefix, rules[0].Cap, key))
	}
	return keys
}

// Allow implements [Limiter].
func (r *Redis) Allow(ctx context.Context, key Key, plan Plan, token string) (Decision, error) {
	if err := checkToken(token); err != nil {
		return Decision{}, err
	}
	shard := crc32.ChecksumIEEE([]byte(key.User)) % uint32(len(r.batchers))
	result, err := r.batchers[shard].Do(ctx, allowRequest{key, plan.For(key.User), token})
	if err = cmp.Or(err, result.err); err != nil {
		return Decision{}, fmt.Errorf("ask the limiter for %s: %w", key.Category, err)
	}
	return result.Decision, nil
}

// Spend implements [Limiter].
func (r *Redis) Spend(ctx context.Context, key Key, plan Plan, token string) (Usage, error) {
	if err := checkToken(token); err != nil {
		return Usage{}, err
	}
	reply, err := r.spend.Run(ctx, r.client, r.keys(key, plan), plan.For(key.User).Args([]any{token})...).Int64Slice()
	if err != nil {
		return Usage{}, fmt.Errorf("ask the limiter for %s: %w", key.Category, err)
	}
	if err := checkNumbers(reply, 4, plan); err != nil {
		return Usage{}, fmt.Errorf("ask the limiter for %s: %w", key.Category, err)
	}
	return Usage{Decision: parseDecision(reply), Rules: parseRules(plan, reply[4:])}, nil
}

// Peek implements [Limiter].
func (r *Redis) Peek(ctx context.Context, key Key, plan Plan) (Usage, error) {
	reply, err := r.peek.Run(ctx, r.client, r.keys(key, plan), plan.For(key.User).Args(nil)...).Int64Slice()
	if err != nil {
		return Usage{}, fmt.Errorf("read the limiter's windows of %s: %w", key.Category, err)
	}
	usage, err := parseUsage(plan, reply)
	if err != nil {
		return Usage{}, fmt.Errorf("read the limiter's windows of %s: %w", key.Category, err)
	}
	return usage, nil
}

// checkNumbers returns an error unless a reply has that many numbers, and two more for each rule of the plan.
func checkNumbers(reply []int64, first int, plan Plan) error {
	if want := first + 2*len(plan.Rules); len(reply) != want {
		return fmt.Errorf("the script returned %d numbers instead of %d", len(reply), want)
	}
	return nil
}

// parseDecision reads allowed, at, now and rule.
func parseDecision(reply []int64) Decision {
	return Decision{Allowed: reply[0] == 1, At: Micros(reply[1]), Now: Micros(reply[2]), Cause: CauseOf(reply[3])}
}

// parseUsage reads the reply of the peek script: at, now, rule, then used and frees-at of each rule of the plan.
func parseUsage(plan Plan, reply []int64) (Usage, error) {
	if err := checkNumbers(reply, 3, plan); err != nil {
		return Usage{}, err
	}
	return Usage{
		Decision: Decision{
			Allowed: reply[0] <= reply[1], At: Micros(reply[0]), Now: Micros(reply[1]), Cause: CauseOf(reply[2]),
		},
		Rules: parseRules(plan, reply[3:]),
	}, nil
}

// parseRules reads used and frees-at of each rule of the plan.
func parseRules(plan Plan, reply []int64) []RuleUsage {
	usage := make([]RuleUsage, 0, len(plan.Rules))
	for i, rule := range plan.Rules {
		usage = append(usage, RuleUsage{Rule: rule, Used: int(reply[2*i]), FreesAt: Micros(reply[2*i+1])})
	}
	return usage
}

// Refund implements [Limiter].
func (r *Redis) Refund(ctx context.Context, key Key, plan Plan, token string, at Micros) (bool, error) {
	if err := checkToken(token); err != nil {
		return false, err
	}
	args := plan.Args([]any{token, strconv.FormatInt(int64(at), 10)})
	done, err := r.refund.Run(ctx, r.client, r.keys(key, plan), args...).Int64()
	if err != nil {
		return false, fmt.Errorf("refund an admission of %s: %w", key.Category, err)
	}
	return done == 1, nil
}

// Clear implements [Limiter].
func (r *Redis) Clear(ctx context.Context, key Key) error {
	prefix := r.prefix(key.User)
	keys := []string{CapKey(prefix, key)}
	for algorithm := range algorithms {
		keys = append(keys, Plan{Algorithm: Algorithm(algorithm)}.StateKey(prefix, key))
	}
	if err := r.client.Unlink(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("clear the windows of %s: %w", key.Category, err)
	}
	return nil
}
