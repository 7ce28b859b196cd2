// Package refusal reports why a process does not start although nothing is broken: a setting, or what the setting
// points to, is not as it must be. Programs exit with code 2 on it.
package refusal

import "fmt"

// Error says in one sentence what must be set right.
type Error struct{ Reason string }

// Error is the sentence.
func (e *Error) Error() string { return e.Reason }

// New makes a refusal.
func New(format string, args ...any) error { return &Error{Reason: fmt.Sprintf(format, args...)} }
