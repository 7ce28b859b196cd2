package postgrestest

import (
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/slowlog"
)

// noteFrom is how long a statement takes at least to be noted.
const noteFrom = 20 * time.Millisecond

// WatchStatements notes every statement that takes 20 ms or more, from now on, with the server's log. The setting
// outlives restarts.
func (s *Server) WatchStatements(tb testing.TB) *slowlog.Watch {
	tb.Helper()
	for _, statement := range []string{
		"ALTER SYSTEM SET log_min_duration_statement = " + strconv.FormatInt(noteFrom.Milliseconds(), 10),
		"SELECT pg_reload_conf()",
	} {
		if err := execute(s.URL(), statement); err != nil {
			tb.Fatalf("watch the statements of postgres: %v", err)
		}
	}
	tail := &tail{path: s.LogPath()}
	if _, err := tail.read(); err != nil { // what was before
		tb.Fatalf("watch the statements of postgres: %v", err)
	}
	return slowlog.Begin(tb, slowlog.Source{Disks: true, PIDs: s.PIDs, Stops: s.Interruptions, Read: tail.read})
}

// tail reads a log as it grows.
type tail struct {
	path string
	at   int64
	rest string // the beginning of a line
}

// noted is how Postgres notes a statement, with a prepared one's name.
var noted = regexp.MustCompile(`duration: ([0-9.]+) ms +(.+)$`)

func (t *tail) read() ([]slowlog.Step, error) {
	file, err := os.Open(t.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	if info, err := file.Stat(); err == nil && info.Size() < t.at {
		t.at, t.rest = 0, "" // a restart began it anew
	}
	if _, err := file.Seek(t.at, io.SeekStart); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	t.at += int64(len(text))
	lines := strings.Split(t.rest+string(text), "\n")
	t.rest = lines[len(lines)-1]
	var steps []slowlog.Step
	for i, line := range lines[:len(lines)-1] {
		found := noted.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		ms, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			return nil, err
		}
		steps = append(steps, slowlog.Step{
			Took: time.Duration(ms * float64(time.Millisecond)), What: firstWords(found[2], lines[i+1:len(lines)-1]),
		})
	}
	return steps, nil
}

// firstWords of a statement: of its first line and those that follow, which a tab begins.
func firstWords(first string, following []string) string {
	words := first
	for _, line := range following {
		if !strings.HasPrefix(line, "\t") {
			break
		}
		words += " " + line
	}
	words = strings.Join(strings.Fields(words), " ")
	const most = 160
	return words[:min(len(words), most)]
}
