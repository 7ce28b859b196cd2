package queue

import _ "embed"

// WakeupFunctions is the Lua source of the functions that write a wake-up in the way asynq keeps a task, for scripts
// that change an agenda in the same step. It needs `digits` and `now`, the moment in µs, declared before it.
//
//go:embed wakeup.lua
var WakeupFunctions string
