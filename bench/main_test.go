package main

import "testing"

// Everything runs once and small, so that nothing here rots.
func TestSmoke(t *testing.T) {
	if err := run(t.Context(), options{rounds: 1, n: 500, smoke: true}); err != nil {
		t.Fatal(err)
	}
}
