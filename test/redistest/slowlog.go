package redistest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/slowlog"
)

const (
	// noteFrom is how long a script takes at least to be noted.
	noteFrom = time.Millisecond
	// noteAtMost is how many commands are noted between two looks.
	noteAtMost = 1024
	// lookTimeout is when a server that does not respond is taken to be away. A slow script must not take that long.
	lookTimeout = 30 * time.Second
)

// WatchScripts notes every script that takes a millisecond or more, from now on, with the server's slow log. The log is
// emptied all the time, so a server that is killed takes little of it along, and its settings are made anew after a
// restart.
func (s *Server) WatchScripts(tb testing.TB) *slowlog.Watch {
	tb.Helper()
	settings := options(s.Addr(), 0)
	settings.ReadTimeout, settings.MaxRetries = lookTimeout, -1 // a reply that is lost takes its entries along
	client := closing(tb, redis.NewClient(settings))
	read := func() ([]slowlog.Step, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), lookTimeout)
		defer cancel()
		return takeSlowLog(ctx, client)
	}
	if _, err := read(); err != nil { // what was before
		tb.Fatalf("watch the scripts of redis-server %s: %v", s.Addr(), err)
	}
	return slowlog.Begin(tb, slowlog.Source{PIDs: s.pids, Stops: s.Interruptions, Read: read})
}

func (s *Server) pids() []int {
	if pid := s.PID(); pid != 0 {
		return []int{pid}
	}
	return nil
}

// takeSlowLog takes the scripts out of the slow log, and everything else.
func takeSlowLog(ctx context.Context, client *redis.Client) ([]slowlog.Step, error) {
	pipe := client.TxPipeline()
	noted := pipe.SlowLogGet(ctx, noteAtMost)
	pipe.Do(ctx, "SLOWLOG", "RESET")
	pipe.ConfigSet(ctx, "slowlog-log-slower-than", strconv.FormatInt(noteFrom.Microseconds(), 10))
	pipe.ConfigSet(ctx, "slowlog-max-len", strconv.Itoa(noteAtMost))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var steps []slowlog.Step
	for _, entry := range noted.Val() {
		if slices.Contains([]string{"eval", "evalsha", "fcall"},
			strings.TrimSuffix(strings.ToLower(entry.Args[0]), "_ro")) {
			steps = append(steps, slowlog.Step{Took: entry.Duration, What: firstWords(entry.Args)})
		}
	}
	return steps, nil
}

// firstWords of a script, or its hash, and of its keys and arguments.
func firstWords(args []string) string {
	words := strings.Join(strings.Fields(strings.Join(args, " ")), " ")
	const most = 160
	return words[:min(len(words), most)]
}
