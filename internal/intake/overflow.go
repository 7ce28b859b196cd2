package intake

import (
	"context"
	"errors"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// tellSlot tells the one whose only notification an overflow ladder has refused how far away its slot is. Nobody learns
// it of those of a batch, nor while it can't be told.
func (in *Intake) tellSlot(ctx context.Context, results []Result, n *notification.Notification) {
	refused, ok := errors.AsType[*notification.OverflowError](results[0].Err)
	if len(results) > 1 || !ok {
		return
	}
	promises, err := in.ask(ctx, []notification.PromiseRequest{{Notification: n}})
	if err == nil && !promises[0].DeliverAt.IsZero() {
		refused.SlotIn = time.Until(promises[0].DeliverAt)
	}
}
