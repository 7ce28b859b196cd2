//go:build accept

package night_test

import "testing"

// TestSlowNights plays the cases that TestNights leaves out.
func TestSlowNights(t *testing.T) {
	t.Parallel()
	runAll(t, true)
}
