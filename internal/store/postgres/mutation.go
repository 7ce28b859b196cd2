//go:build !faults

package postgres

// mutation tells whether a protection is switched off, so that a test of it can be seen to fail. Only builds with the
// tag faults can: see mutation_faults.go.
func mutation(string) bool { return false }
