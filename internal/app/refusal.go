package app

import "github.com/pacer-notify/pacer/internal/refusal"

// RefusalError says what must be set right before a process can start. Programs exit with code 2 on it.
type RefusalError = refusal.Error

func refuse(format string, args ...any) error { return refusal.New(format, args...) }
