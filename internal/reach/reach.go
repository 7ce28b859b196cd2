// Package reach says that a store can't be reached, and that it can again: each once, before the lines about all that
// fails because of it.
package reach

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/timespan"
)

// Store watches the attempts to connect to a store.
type Store struct {
	// Name is the store's; Stops says what does not work while it is away, and what does.
	Name, Stops string
	Log         *slog.Logger

	mu      sync.Mutex
	reached bool
	away    map[string]outage // by address
}

// outage is a time in which an address can't be reached.
type outage struct {
	since   time.Time
	symptom string
}

// Lost marks the line that says that an address can't be reached. Errors that hold the symptom follow from that.
type Lost struct{ Address, Symptom string }

// MarshalText implements [encoding.TextMarshaler].
func (l Lost) MarshalText() ([]byte, error) { return []byte(l.Address), nil }

// Found marks the line that says that the address of an earlier [Lost] is reached again.
type Found struct{ Address, Symptom string }

// MarshalText implements [encoding.TextMarshaler].
func (f Found) MarshalText() ([]byte, error) { return []byte(f.Address), nil }

// Dial has a way to connect tell how each attempt ended. It returns it as it is for a nil Store.
func (s *Store) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error),
) func(ctx context.Context, network, address string) (net.Conn, error) {
	if s == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		s.dialed(ctx, address, err)
		return conn, err
	}
}

// dialed notes how an attempt ended. Before the first that succeeded, whoever starts says what is wrong.
func (s *Store) dialed(ctx context.Context, address string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, away := s.away[address]
	switch {
	case err == nil:
		s.reached = true
		delete(s.away, address)
		if away {
			s.Log.InfoContext(ctx, "a store responds again", "store", s.Name,
				"after", timespan.Seconds(time.Since(before.since)), "address", Found{address, before.symptom})
		}
	case away, !s.reached, errors.Is(err, context.Canceled):
	default:
		if s.away == nil {
			s.away = map[string]outage{}
		}
		s.away[address] = outage{time.Now(), symptomOf(err)}
		s.Log.WarnContext(ctx, "a store does not respond", "store", s.Name, "stops", s.Stops,
			"address", Lost{address, symptomOf(err)}, "error", err)
	}
}

// symptomOf is what the errors hold that follow from a failed attempt.
func symptomOf(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		return op.Op + " " + op.Net + " " + op.Addr.String()
	}
	return err.Error()
}
