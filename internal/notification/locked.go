package notification

// LockedError says that something was not done, because a transaction that is open in the database has locked what it
// needs.
type LockedError struct {
	// Doing is what was being done, such as "accept notification order-7".
	Doing string
	Err   error
}

// Error says what to do.
func (e *LockedError) Error() string {
	return e.Doing + ": another transaction in the database keeps this locked, so nothing was changed; try again once it has ended"
}

// Unwrap returns the database's error.
func (e *LockedError) Unwrap() error { return e.Err }
