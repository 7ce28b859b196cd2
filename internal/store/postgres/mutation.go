//go:build !faults

package postgres

// mutation tells whether a protection is switched off, so that its test can be seen to fail. Only builds with the tag
// faults can switch one off: see mutation_faults.go.
func mutation(string) bool { return false }
