package redis

import (
	"context"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// keptPage is about how many notifications are read at a time: few enough of the largest to fit into memory.
const keptPage = 50

// EachKept calls do, with some at a time, for every notification that Redis keeps: what has become of it, and what it
// is. One that changes meanwhile may come twice.
func (s *views) EachKept(ctx context.Context, do func([]*agenda.State, []*notification.Notification) error) error {
	at, done := outlook.ScanPlace{}, false
	for !done {
		var states []*agenda.State
		var err error
		if states, at, done, err = outlook.Of(s.agendas).Scan(ctx, at, keptPage, ""); err != nil {
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
