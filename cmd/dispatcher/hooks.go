//go:build !faults

package main

import "github.com/pacer-notify/pacer/internal/app"

// hooks changes nothing. A program built with the tag faults can lack protections: see hooks_faults.go.
func hooks() app.Hooks { return app.Hooks{} }
