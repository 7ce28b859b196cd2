package throttle

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// allowAtOnce is how many admissions one script is asked for at most: each takes some 10 µs.
const allowAtOnce = 64

// asked is one call of Allow.
type asked struct {
	key   Key
	plan  Plan
	token string
}

// allowed is what it got.
type allowed struct {
	Decision

	err error
}

// allowAll asks for many admissions: by one script for each key prefix, since each may be on a server of its own.
func (l *Redis) allowAll(ctx context.Context, questions []asked) ([]allowed, error) {
	answers := make([]allowed, len(questions))
	prefixes := make([]string, len(questions))
	for i, q := range questions {
		prefixes[i] = l.prefix(q.key.User)
	}
	var scripts sync.WaitGroup
	for i, prefix := range prefixes {
		if slices.Index(prefixes, prefix) != i {
			continue // it went with the first of its prefix
		}
		var of []int
		for j := i; j < len(prefixes); j++ {
			if prefixes[j] == prefix {
				of = append(of, j)
			}
		}
		if len(of) == len(prefixes) {
			l.allowTogether(ctx, questions, answers, of)
			break
		}
		scripts.Go(func() { l.allowTogether(ctx, questions, answers, of) })
	}
	scripts.Wait()
	return answers, nil
}

// allowTogether asks the questions with these numbers in one script.
func (l *Redis) allowTogether(ctx context.Context, questions []asked, answers []allowed, of []int) {
	keys, args := make([]string, 0, 2*len(of)), make([]any, 1, 16+2*len(of))
	numbers := make([]string, len(of))
	var distinct []Plan
	for i, j := range of {
		plan := questions[j].plan
		keys = append(keys, l.keys(questions[j].key, plan)...)
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
		args = append(args, questions[j].token, numbers[i])
	}
	reply, err := l.allow.Run(ctx, l.client, keys, args...).Slice()
	if err == nil && len(reply) != 1+3*len(of) {
		err = fmt.Errorf("the script answered %d fields to %d questions", len(reply), len(of))
	}
	for i, j := range of {
		if err != nil {
			answers[j].err = err
			continue
		}
		answers[j].Decision, answers[j].err = decisionOf(reply[0], reply[1+3*i:4+3*i])
	}
}

// decisionOf reads the answer to one question: allowed, at, rule.
func decisionOf(now any, answer []any) (Decision, error) {
	if answer[0] == any("error") {
		return Decision{}, fmt.Errorf("the script failed: %v", answer[1])
	}
	numbers := [4]int64{}
	for i, field := range []any{answer[0], answer[1], now, answer[2]} {
		n, ok := field.(int64)
		if !ok {
			return Decision{}, fmt.Errorf("the script answered %v at %v", answer, now)
		}
		numbers[i] = n
	}
	return parseDecision(numbers[:]), nil
}
