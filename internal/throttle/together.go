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
	replies, err := l.allow.Run(ctx, l.client, keys, args...).Slice()
	if err == nil && len(replies) != len(of) {
		err = fmt.Errorf("the script answered %d of %d questions", len(replies), len(of))
	}
	for i, j := range of {
		if err != nil {
			answers[j].err = err
			continue
		}
		answers[j].Decision, answers[j].err = decisionOf(replies[i])
	}
}

// decisionOf reads the reply to one question.
func decisionOf(reply any) (Decision, error) {
	fields, _ := reply.([]any)
	if len(fields) == 2 && fields[0] == any("error") {
		return Decision{}, fmt.Errorf("the script failed: %v", fields[1])
	}
	numbers := make([]int64, 0, 4)
	for _, field := range fields {
		if n, ok := field.(int64); ok {
			numbers = append(numbers, n)
		}
	}
	if len(fields) != 4 || len(numbers) != 4 {
		return Decision{}, fmt.Errorf("the script answered %v", reply)
	}
	return parseDecision(numbers), nil
}
