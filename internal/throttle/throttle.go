// Package throttle decides when something may happen once more. It holds several windows, a minimum gap, and a cap over
// all of a user's categories. An admission counts in all of them, or in none.
//
// [Next] is the rule itself, as a pure function. [Redis] applies it in one Lua script per decision, on the Redis
// server's clock, so any number of processes share one limit. [Memory] applies it within one process, on any clock.
// Only what was admitted counts: a refusal changes nothing, so asking again is free. [Middleware] limits an HTTP API
// with either.
//
// [Rolling] holds a limit of N in T exactly. [FixedWindow] and [TokenBucket] need constant memory instead, and may
// admit up to 2N−1 within one T. When the clock is set back, callers wait for at most a window and ten seconds, and
// nothing is admitted too early, unless the clock had gone ahead by more than a window: then that window was forgotten.
package throttle

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Key is what a plan limits: for notifications a user and a category of theirs, for HTTP a token and a route.
type Key struct {
	// User has one cap over all categories.
	User string
	// Category has its own windows for each user.
	Category string
}

// Decision is what a limiter decides about one admission.
type Decision struct {
	// Allowed reports whether it may happen, and has been counted.
	Allowed bool
	// At is the moment that was counted. For a refusal it is the earliest moment at which it could be allowed.
	At Micros
	// Now is the limiter's clock when it decided.
	Now Micros
	// Cause is what refused: its rule is an index in [Plan.Rules].
	Cause
}

// Wait is how long a refused caller has to wait; 0 when allowed.
func (d Decision) Wait() time.Duration { return max(0, d.At.Sub(d.Now)) }

// RuleUsage is how far one rule is used.
type RuleUsage struct {
	Rule Rule
	// Used is how many admissions the rule counts now. It is more than Max after a change to a smaller Max, or when
	// some admissions bypassed the rule.
	Used int
	// FreesAt is when the next of them stops counting; 0 when none counts.
	FreesAt Micros
}

// Remaining is how many more this rule alone would allow now.
func (u RuleUsage) Remaining() int { return max(0, u.Rule.Max-u.Used) }

// Usage is a decision, and how far each of [Plan.Rules] is used.
type Usage struct {
	Decision
	Rules []RuleUsage
}

// MaxToken is the longest token, in bytes. Longer members would cost a sorted set several times the memory, and the log
// adds two bytes.
const MaxToken = 62

// checkToken returns an error for a token that a log must not hold.
func checkToken(token string) error {
	if strings.HasPrefix(token, tokenOfCut) {
		return fmt.Errorf("name an admission: its token must not begin with %q, which the log itself uses", tokenOfCut)
	}
	if token == "" || len(token) > MaxToken {
		return fmt.Errorf("name an admission: a token has 1 to %d bytes, not %d", MaxToken, len(token))
	}
	return nil
}

// Limiter admits or refuses. Its implementations pass one conformance suite, package throttletest.
type Limiter interface {
	// Allow decides one admission, and counts it when it may happen now. The token, 1 to [MaxToken] bytes and not
	// beginning with a slash, names the admission: a repeated call with the same token, after a lost reply, gets the
	// same decision. A rolling plan or a cap remembers the newest admissions, as many as the largest Max. Otherwise
	// only the latest is remembered.
	Allow(ctx context.Context, key Key, plan Plan, token string) (Decision, error)
	// Spend is Allow, and in the same step reports how far each rule is used afterwards.
	Spend(ctx context.Context, key Key, plan Plan, token string) (Usage, error)
	// Peek reports what Allow would decide, without counting.
	Peek(ctx context.Context, key Key, plan Plan) (Usage, error)
	// Refund takes back an admission that surely had no effect; at is its moment. It reports whether one was taken
	// out. None is when it is not remembered (see Allow), or no longer counts, so a repeated call is harmless. A token
	// bucket gives back what its refill since then cannot have replaced: all for the latest admission, less for an
	// earlier one.
	Refund(ctx context.Context, key Key, plan Plan, token string, at Micros) (bool, error)
	// Clear forgets the windows of the key's category, and that of the user's cap. Named caps stay.
	Clear(ctx context.Context, key Key) error
}
