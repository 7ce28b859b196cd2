package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Windows is the [Throttle] over the agendas of a deployment.
type Windows struct {
	Agendas *agenda.Agendas
	// Audit is the audit log, where cleared windows are noted.
	Audit control.Store
	// Note notes, where windows are rebuilt from Postgres, that some are about to be cleared. Nil where they are not.
	Note func(ctx context.Context, userID, category string) error
}

var _ Throttle = Windows{}

// Window implements [Throttle].
func (w Windows) Window(ctx context.Context, userID, category string) (Window, error) {
	in, err := outlook.Of(w.Agendas).Peek(ctx, dispatch.BacklogOf(userID, category, w.Agendas.Partitions()))
	if err != nil {
		return Window{}, err
	}
	window := Window{
		UserID: userID, Category: category, Allowed: in.Allowed, NextAllowedAt: in.At.Time().UTC(),
		Deferred:   in.Deferred,
		Reason:     player.ReasonOf(w.Agendas.SettingsOf(userID, category).Plan, in.Cause),
		TimeLeftMS: int64((in.Wait() + time.Millisecond - 1) / time.Millisecond), Rules: []Rule{},
	}
	for _, r := range in.Rules {
		rule := Rule{
			Max: r.Rule.Max, Per: r.Rule.Window(), Used: r.Used,
			Remaining: r.Remaining(),
		}
		if r.FreesAt > 0 {
			at := r.FreesAt.Time().UTC()
			rule.FreesAt = &at
		}
		window.Rules = append(window.Rules, rule)
	}
	return window, nil
}

// Clear implements [Throttle]. It also clears the windows of the user cap. It notes that first: what is noted and
// not cleared only goes unchecked, but what is admitted after an unnoted clear looks like a violation. Once it is
// noted the clear is made, also for a caller that has gone. Before Redis forgets the windows, Postgres does: a rebuild
// in between makes the clear, one that follows does not undo it.
func (w Windows) Clear(ctx context.Context, userID, category string) error {
	entry := control.Entry{By: "API", Action: control.Cleared, Subject: userID, Detail: category}
	if err := w.Audit.Note(ctx, entry); err != nil {
		return fmt.Errorf("note windows that are to be cleared: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if w.Note != nil {
		if err := w.Note(ctx, userID, category); err != nil {
			return err
		}
	}
	return w.Agendas.Clear(ctx, dispatch.BacklogOf(userID, category, w.Agendas.Partitions()))
}
