package throttle

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// maxAllowBatch is how many requests one script decides at most. Each takes some 10 µs.
const maxAllowBatch = 64

// allowRequest is one call of Allow.
type allowRequest struct {
	key   Key
	plan  Plan
	token string
}

// allowResult is its decision, or the error.
type allowResult struct {
	Decision

	err error
}

// allowBatch decides many requests. It runs one script for each key prefix, since each prefix may be on a server of its
// own.
func (r *Redis) allowBatch(ctx context.Context, requests []allowRequest) ([]allowResult, error) {
	results := make([]allowResult, len(requests))
	prefixes := make([]string, len(requests))
	for i, request := range requests {
		prefixes[i] = r.prefix(request.key.User)
	}
	var scripts sync.WaitGroup
	for i, prefix := range prefixes {
		if slices.Index(prefixes, prefix) != i {
			continue // its script is that of the first with this prefix
		}
		var of []int
		for j := i; j < len(prefixes); j++ {
			if prefixes[j] == prefix {
				of = append(of, j)
			}
		}
		if len(of) == len(prefixes) {
			r.allowOnePrefix(ctx, requests, results, of)
			break
		}
		scripts.Go(func() { r.allowOnePrefix(ctx, requests, results, of) })
	}
	scripts.Wait()
	return results, nil
}

// allowOnePrefix decides the requests with these numbers, whose keys share a prefix, in one script.
func (r *Redis) allowOnePrefix(ctx context.Context, requests []allowRequest, results []allowResult, of []int) {
	keys, args := make([]string, 0, 2*len(of)), make([]any, 1, 16+2*len(of))
	numbers := make([]string, len(of))
	var distinct []Plan
	for i, j := range of {
		plan := requests[j].plan
		keys = append(keys, r.keys(requests[j].key, plan)...)
		number := slices.IndexFunc(distinct, plan.Equal)
		if number < 0 {
			number, distinct = len(distinct), append(distinct, plan)
			args = append(args, strconv.Itoa(plan.argCount()))
			args = plan.Args(args)
		}
		numbers[i] = strconv.Itoa(number + 1)
	}
	args[0] = strconv.Itoa(len(distinct))
	for i, j := range of {
		args = append(args, requests[j].token, numbers[i])
	}
	reply, err := r.allow.Run(ctx, r.client, keys, args...).Slice()
	if err == nil && len(reply) != 1+3*len(of) {
		err = fmt.Errorf("the script returned %d fields for %d requests", len(reply), len(of))
	}
	for i, j := range of {
		if err != nil {
			results[j].err = err
			continue
		}
		results[j].Decision, results[j].err = parseAllowResult(reply[0], reply[1+3*i:4+3*i])
	}
}

// parseAllowResult reads the result of one request: allowed, at, rule.
func parseAllowResult(now any, fields []any) (Decision, error) {
	if fields[0] == any("error") {
		return Decision{}, fmt.Errorf("the script failed: %v", fields[1])
	}
	numbers := [4]int64{}
	for i, field := range []any{fields[0], fields[1], now, fields[2]} {
		n, ok := field.(int64)
		if !ok {
			return Decision{}, fmt.Errorf("the script returned %v at %v", fields, now)
		}
		numbers[i] = n
	}
	return parseDecision(numbers[:]), nil
}
