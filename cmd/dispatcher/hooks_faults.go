//go:build faults

package main

import (
	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/test/faults/mutation"
)

// hooks takes away the protections that the environment names, so that fault scenarios can be seen to fail.
func hooks() app.Hooks { return mutation.Hooks() }
