package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Fault is one fault of a policy file, and its place.
type Fault struct {
	// File is the name given to [Parse].
	File string
	// Line and Column count from 1.
	Line, Column int
	// Message names the setting and says what would be right.
	Message string
}

// Error reads "policy.yaml:12:5: categories.chat.limits[0].max: must be between 1 and 1000000, is 0".
func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// joinFaults makes one error of the faults, in the order of the file; nil without any.
func joinFaults(faults []*Fault) error {
	sortFaults(faults)
	joined := make([]error, len(faults))
	for i, f := range faults {
		joined[i] = f
	}
	return errors.Join(joined...)
}

func sortFaults(faults []*Fault) {
	slices.SortStableFunc(faults, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
