package embedded

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// shebangs lets miniredis run scripts that begin with a line such as "#!lua flags=allow-oom", which it does not know.
// Redis names a script by the hash of its text; miniredis is told the script without that line, and its name for it.
type shebangs struct {
	mu    sync.Mutex
	names map[string]string // by the name that clients use
}

// rewrite is a hook before every command, whose arguments it changes in place.
func (s *shebangs) rewrite(_ *server.Peer, command string, args ...string) bool {
	switch {
	case command == "EVAL" && len(args) > 0:
		args[0] = s.without(args[0])
	case command == "SCRIPT" && len(args) == 2 && strings.EqualFold(args[0], "load"):
		args[1] = s.without(args[1])
	case command == "EVALSHA" && len(args) > 0:
		s.mu.Lock()
		if name, known := s.names[args[0]]; known {
			args[0] = name
		}
		s.mu.Unlock()
	}
	return false
}

// without gives a script without its shebang, and remembers it.
func (s *shebangs) without(text string) string {
	if !strings.HasPrefix(text, "#!") {
		return text
	}
	_, rest, _ := strings.Cut(text, "\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[nameOf(text)] = nameOf(rest)
	return rest
}

func nameOf(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}
