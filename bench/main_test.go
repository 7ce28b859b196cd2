package main

import "testing"

// TestSmoke runs everything once and small, so that nothing here rots.
//
//nolint:paralleltest // it is the only one
func TestSmoke(t *testing.T) {
	if err := run(t.Context(), options{rounds: 1, n: 500, smoke: true}); err != nil {
		t.Fatal(err)
	}
}
