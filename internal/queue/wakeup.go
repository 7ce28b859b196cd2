package queue

import _ "embed"

// WakeupFunctions is the Lua source of the functions that write a wake-up as asynq keeps a task, for scripts that
// change an agenda in the same step. Before it must stand `digits` and `now`, the moment in µs.
//
//go:embed wakeup.lua
var WakeupFunctions string
