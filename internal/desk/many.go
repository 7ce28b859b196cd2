package desk

import (
	"context"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Many finds and changes many notifications: it lists them by a filter, and retries, cancels or moves them, one alone
// or many in a [control.Job].
//
// A job is kept by the control store, so it goes on when the process that runs it dies: another takes it over, and
// every step may be repeated. What is sent again has an id that follows from the old one, so it is accepted once,
// whichever process, job or operator asks how often.
type Many struct {
	Store ManyStore
	// Names returns the names that a query may use now.
	Names func() Names
	// Intake accepts what is sent again.
	Intake Intake
	// Control keeps the jobs and the audit log.
	Control control.Store
	// Process names this process among those that run jobs.
	Process string
	// Rate is how many notifications a job changes in a second at most.
	Rate int
	Log  *slog.Logger
}

// ManyStore keeps the notifications.
type ManyStore interface {
	Lister
	HistoryStore
	View(ctx context.Context, id string) (*notification.View, error)
	// CancelBecause ends a notification that waits as cancelled. Else it returns [notification.ErrNotFound] or
	// [notification.ErrNotWaiting].
	CancelBecause(ctx context.Context, id, reason string) error
	// Change changes a notification that waits, unless a [notification.FieldError] says why not; its other errors are
	// the same.
	Change(ctx context.Context, id string, c notification.Change) error
	// Deliveries lists what became of a notification on its user's devices.
	Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error)
	// Superseded reports whether a newer notification with the user, category and collapse key of n was accepted,
	// whatever became of it, as far as the store still knows it.
	Superseded(ctx context.Context, n *notification.Notification) (bool, error)
}

// Intake accepts notifications.
type Intake interface {
	Accept(ctx context.Context, batch []intake.Request) ([]intake.Result, error)
	// Check returns why a request would be refused.
	Check(ctx context.Context, r intake.Request) (refused, fault error)
}

// RefusalError says why something was not done, and that nothing was changed.
type RefusalError struct {
	Reason string
	// Err is the error that the reason tells of; nil when there is none.
	Err error
}

// Error is one sentence.
func (e *RefusalError) Error() string { return e.Reason }

// Unwrap returns the error that the reason tells of.
func (e *RefusalError) Unwrap() error { return e.Err }

// PartialError says what was done, and why that is not all that was asked for.
type PartialError struct{ Reason string }

// Error is one sentence.
func (e *PartialError) Error() string { return e.Reason }
