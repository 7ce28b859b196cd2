package redis

import (
	"context"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// keptPage is about how many notifications are read at a time: few enough of the largest to fit into memory.
const keptPage = 50

// EachKept calls do, with some at a time, for every notification that Redis keeps: what has become of it, and what it
// is. One that changes meanwhile may come twice.
func (s *Store) EachKept(ctx context.Context, do func([]*agenda.State, []*notification.Notification) error) error {
	at, done := agenda.ScanPlace{}, false
	for !done {
		var states []*agenda.State
		var err error
		if states, at, done, err = s.agendas.Scan(ctx, at, keptPage, ""); err != nil {
			return err
		}
		content := make([]*notification.Notification, len(states))
		for i, state := range states {
			if content[i], err = decode(state.ID, state.Backlog, state.AcceptedAt, state.Payload); err != nil {
				return err
			}
			if intake.KeyIsOver(state.AcceptedAt, state.Status.Ended()) { // it may be another's by now
				content[i].IdempotencyKey, content[i].Fingerprint = "", ""
			}
		}
		if err := do(states, content); err != nil {
			return err
		}
	}
	return nil
}

// EachWithDevices calls do, with some at a time, for the users who have devices.
func (s *Store) EachWithDevices(ctx context.Context, do func(userIDs []string) error) error {
	return s.agendas.EachKey(ctx, "dev:", func(_ goredis.UniversalClient, keys []string) error {
		users := make([]string, len(keys))
		for i, key := range keys {
			_, users[i], _ = strings.Cut(key, "}:dev:")
		}
		return do(users)
	})
}
