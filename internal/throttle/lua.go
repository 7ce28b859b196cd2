package throttle

import (
	"embed"
	"strings"
)

//go:embed lua
var luaFiles embed.FS

// lua returns the source in files of the directory lua, in this order. In Lua a local function must stand before its
// users, so each file comes after those that it uses.
func lua(names ...string) string {
	var source strings.Builder
	for _, name := range names {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // The files are part of the program, and each is read when it starts.
		}
		source.Write(text)
	}
	return source.String()
}

// countingSource is the Lua function make_counting: counters.lua with the algorithms that it needs before it.
func countingSource() string {
	var source strings.Builder
	source.WriteString("local function make_counting()\nlocal algorithms = {}\n")
	for _, a := range algorithms {
		if a.counting != nil {
			source.WriteString("algorithms." + a.letter + " = function()\n" + lua("algorithms/"+a.name) + "end\n")
		}
	}
	source.WriteString(lua("counters") + "end\n")
	return source.String()
}

// The Lua source of the limiter's functions, for scripts that have state of their own. Each function costs a little in
// every run of a script, so a script takes no more than it needs.
var (
	// LogFunctions work on a log of admissions. They come first.
	LogFunctions = lua("log")
	// DecideFunctions read a plan, decide and charge an admission. They come after LogFunctions.
	DecideFunctions = peekFunctions + lua("clock_set_back")
	// PastFunctions read what [Windows.Read] takes in. They come after LogFunctions.
	PastFunctions = lua("plan") + countingSource() + lua("decide", "past")
	// Functions are DecideFunctions, refund and usage.
	Functions = DecideFunctions + lua("refund", "usage")

	// peekFunctions are DecideFunctions without the repair after a clock was set back.
	peekFunctions = lua("plan") + countingSource() + lua("decide")
)
