// Package script runs Lua scripts on Redis, and makes sure that each caller gets the reply to its own request. Many
// callers share one connection (ADR 16). Should its replies ever be read out of step, every caller would get somebody
// else's reply, without an error. So each reply carries the nonce of its request, and a client that gets a wrong
// nonce closes its connections. A script must not return an error inside a list: go-redis stops reading there, and
// leaves the rest of the reply to the next caller (docs/upstream.md).
package script

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrForeignReply says that a connection returned the reply to another request. What the script did is unknown.
var ErrForeignReply = errors.New("Redis returned the reply to another request") //nolint:staticcheck // a name

// The source runs as a function. Its result is returned beside the nonce of the request, which is the last argument;
// an error is returned as it is.
const (
	before = "local nonce = table.remove(ARGV)\nlocal function run()\n"
	after  = "\nend\nlocal result = run()\n" +
		"if type(result) == 'table' and result.err then return result end\nreturn { nonce, result }\n"
)

// What Redis does with a script when its memory is full (maxmemory). A script without such a line would run up to its
// first command that takes memory, and leave its work half done.
const (
	refusedWhenFull = "#!lua\n"
	runsWhenFull    = "#!lua flags=allow-oom\n"
)

// Here is a Lua function that names the history of the data on the server that runs the script. A promoted replica and
// a restarted server begin another history. On an engine that does not tell, it is empty, and there is nothing to
// compare.
const Here = `local function here()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
end
`

// Script is a Lua script whose replies are checked. It is safe for concurrent use.
type Script struct{ script atomic.Pointer[redis.Script] }

// New makes a Script that a full Redis refuses as a whole: one that accepts or grants something.
func New(source string) *Script { return newScript(refusedWhenFull, source) }

// NewWhenFull makes a Script that runs on a full Redis too: one that only reads, or finishes something. A
// notification that was sent has to be settled, or it is sent again.
func NewWhenFull(source string) *Script { return newScript(runsWhenFull, source) }

// newScript makes a Script whose first line tells Redis what to do when its memory is full.
func newScript(first, source string) *Script {
	s := &Script{}
	s.script.Store(redis.NewScript(first + before + source + after))
	return s
}

// Become has later runs execute another script, as one source with other constants does.
func (s *Script) Become(other *Script) { s.script.Store(other.script.Load()) }

// nonces of this process begin with this.
var nonces = rand.Text()[:8] + "-"

// requests counts the requests of this process.
var requests atomic.Uint64

// Run runs the script and returns its result. If the reply is to another request, it closes the client's connections
// and returns [ErrForeignReply].
func (s *Script) Run(ctx context.Context, client redis.Scripter, keys []string, args ...any) *redis.Cmd {
	nonce := nonces + strconv.FormatUint(requests.Add(1), 36)
	began := time.Now()
	cmd := s.script.Load().Run(ctx, client, keys, append(slices.Clip(args), nonce)...)
	measure(began, cmd.Err())
	if cmd.Err() != nil {
		return cmd
	}
	result, err := unwrap(cmd.Val(), nonce)
	if errors.Is(err, ErrForeignReply) {
		distrust(client)
	}
	cmd.SetVal(result)
	cmd.SetErr(err)
	return cmd
}

// unwrap checks the nonce of a reply, and returns the script's result.
func unwrap(reply any, nonce string) (any, error) {
	pair, ok := reply.([]any)
	if !ok || len(pair) == 0 || len(pair) > 2 || pair[0] != any(nonce) {
		return nil, fmt.Errorf("%w: got a %T instead of the reply to %s", ErrForeignReply, reply, nonce)
	}
	if len(pair) == 1 || pair[1] == nil { // Lua's nil ends a list
		return nil, redis.Nil
	}
	return pair[1], nil
}
