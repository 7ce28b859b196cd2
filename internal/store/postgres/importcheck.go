package postgres

import (
	"context"
	"errors"

	"github.com/pacer-notify/pacer/internal/agenda"
)

// ErrUnimported says that Redis holds the notifications of a deployment without a database, and that nobody has decided
// whether to import them. A rebuild of the partitions would destroy them.
var ErrUnimported = errors.New( //nolint:staticcheck // it begins with a name
	"Redis holds notifications of a deployment without DATABASE_URL, which have been neither imported nor declined")

// CheckImported returns [ErrUnimported] when a rebuild would destroy notifications that only Redis holds.
func (r *Relay) CheckImported(ctx context.Context) error {
	has, err := r.store.HasEpochs(ctx)
	if err != nil || has {
		return err
	}
	state, err := r.store.agendas.Importing(ctx)
	if err != nil || state == agenda.ImportDone || state == agenda.ImportDeclined {
		return err
	}
	holds, err := r.store.agendas.HoldsAny(ctx)
	if err == nil && holds {
		err = ErrUnimported
	}
	return err
}
