package queue

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// WakeupFunctions is the Lua source of the functions that write a wake-up in the way asynq keeps a task, for scripts
// that change an agenda in the same step. It needs `digits`, `now`, the moment in µs, and TELL declared before it, see
// [Tells].
//
//go:embed wakeup.lua
var WakeupFunctions string

// Tells says whether the scripts that run on a client tell processes which have nothing to do that something is
// pending. On Redis Cluster every node would be told of everything; there the processes look instead.
func Tells(client redis.UniversalClient) bool {
	_, cluster := client.(*redis.ClusterClient)
	return !cluster
}
