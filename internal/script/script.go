// Package script runs Lua scripts on Redis so that no caller takes another's answer for its own. Many callers share one
// connection (ADR 5); when its replies are ever read out of step, each of them gets the answer to somebody else's
// question, without an error. So every answer carries a nonce of its question, which is checked, and a client whose
// answers are out of step gets new connections. A script must not return an error inside a list: go-redis stops reading
// there and leaves the rest of the reply for the next caller (docs/upstream.md).
package script

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// ErrForeignAnswer says that a connection gave the answer to another question. What the script did is unknown.
var ErrForeignAnswer = errors.New("redis answered another question than was asked")

// The source runs as a function, and its result is given back beside the question's nonce, the last argument. An error
// stays one.
const (
	before = "local nonce = table.remove(ARGV)\nlocal function answer()\n"
	after  = "\nend\nlocal found = answer()\nif type(found) == 'table' and found.err then return found end\nreturn { nonce, found }\n"
)

// What Redis does with a script when it is full (maxmemory). A script without such a line would run to its first
// command that takes memory, and leave its work half done.
const (
	refusedWhenFull = "#!lua\n"
	runsWhenFull    = "#!lua flags=allow-oom\n"
)

// Script is a Lua script whose answers are checked. It is safe for concurrent use.
type Script struct{ script *redis.Script }

// New makes a Script that a full Redis refuses as a whole: one that takes something on.
func New(source string) *Script { return newScript(refusedWhenFull, source) }

// NewWhenFull makes a Script that runs on a full Redis too: one that only reads, or finishes what was taken on. What
// was sent must be settled, or it is sent again.
func NewWhenFull(source string) *Script { return newScript(runsWhenFull, source) }

func newScript(first, source string) *Script {
	return &Script{redis.NewScript(first + before + source + after)}
}

// nonces of this process begin with this.
var nonces = rand.Text()[:8] + "-"

// asked counts the questions of this process.
var asked atomic.Uint64

// Run runs the script, and gives what it returned when that is the answer to this question; else an error that is an
// [ErrForeignAnswer], after which the client's connections are closed.
func (s *Script) Run(ctx context.Context, client redis.Scripter, keys []string, args ...any) *redis.Cmd {
	nonce := nonces + strconv.FormatUint(asked.Add(1), 36)
	cmd := s.script.Run(ctx, client, keys, append(slices.Clip(args), nonce)...)
	if cmd.Err() != nil {
		return cmd
	}
	answer, err := unwrap(cmd.Val(), nonce)
	if errors.Is(err, ErrForeignAnswer) {
		distrust(client)
	}
	cmd.SetVal(answer)
	cmd.SetErr(err)
	return cmd
}

// unwrap takes the answer out of what the script gave back beside it.
func unwrap(reply any, nonce string) (any, error) {
	pair, ok := reply.([]any)
	if !ok || len(pair) == 0 || len(pair) > 2 || pair[0] != any(nonce) {
		return nil, fmt.Errorf("%w: got a %T instead of an answer to %s", ErrForeignAnswer, reply, nonce)
	}
	if len(pair) == 1 || pair[1] == nil { // Lua's nil ends a list
		return nil, redis.Nil
	}
	return pair[1], nil
}
