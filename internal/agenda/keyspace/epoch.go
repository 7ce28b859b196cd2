package keyspace

import (
	"errors"
	"strconv"
	"strings"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/script"
)

// ErrMoved says that the store of a deployment is no longer Redis. This process needs the DATABASE_URL that the others
// have.
var ErrMoved = errors.New("the store of this deployment has moved to Postgres: set DATABASE_URL for this process, too")

// Fault returns [dispatch.ErrLost] or [ErrMoved] for the errors with which scripts say so, and every other as it is.
func Fault(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "NOEPOCH"):
		return dispatch.ErrLost
	case strings.Contains(err.Error(), "MOVEDON"):
		return ErrMoved
	}
	return err
}

// Epoch names a state of a partition: how often the partition was built, and on which server.
type Epoch string

// NewEpoch makes the epoch of that number on that server.
func NewEpoch(number int64, identity string) Epoch {
	return Epoch(strconv.FormatInt(number, 10) + " " + identity)
}

// Number is how often the partition was built; 0 when there is no epoch.
func (e Epoch) Number() int64 {
	text, _, _ := strings.Cut(string(e), " ")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// InRebuild is a Lua function that reports whether a partition is in a rebuild, on the data on which the rebuild began.
// A server that has restarted, or was promoted, has the token perhaps, but not what was restored last.
const InRebuild = script.Here + `local function in_rebuild(key, token)
  return redis.call('GET', key) == token .. ' ' .. here()
end
`

// NotInRebuild is what a script returns that in_rebuild refuses.
const NotInRebuild = `return redis.error_reply('NOEPOCH the partition is in another rebuild, or was lost again')`
