package postgres

import (
	"context"
	"errors"

	"github.com/pacer-notify/pacer/internal/agenda"
)

// ErrUnimported says that Redis holds a deployment whose record is there, and nobody has said what is to become of it:
// to rebuild the lanes would destroy it.
var ErrUnimported = errors.New("Redis keeps the record of a deployment without DATABASE_URL, which was neither imported nor declined") //nolint:staticcheck // a name

// CheckImported gives [ErrUnimported] for a Redis that a rebuild would destroy.
func (l *Relay) CheckImported(ctx context.Context) error {
	has, err := l.record.HasEpochs(ctx)
	if err != nil || has {
		return err
	}
	state, err := l.record.boxes.Importing(ctx)
	if err != nil || state == agenda.ImportDone || state == agenda.ImportDeclined {
		return err
	}
	holds, err := l.record.boxes.HoldsAny(ctx)
	if err == nil && holds {
		err = ErrUnimported
	}
	return err
}
