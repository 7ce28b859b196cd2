package settings

import (
	"errors"
	"fmt"
	"strings"
)

// UsageError refuses a setting. Its reader has started the program. It never holds a secret.
type UsageError struct {
	// Setting is what is refused: "--partitions (PACER_PARTITIONS)", "PACER_PARTITIONS" or "settings.yaml:3:1".
	Setting string
	// Message completes the sentence: "must be between 1 and 1024, is 0".
	Message string
}

// Error is the sentence.
func (e *UsageError) Error() string {
	if e.Setting == "" {
		return e.Message
	}
	return e.Setting + " " + e.Message
}

// ExitCode is what a program that was refused to start ends with. It implements [kong.ExitCoder].
func (e *UsageError) ExitCode() int { return 2 }

// refuse refuses the setting that a flag stands for.
func refuse(flag, format string, args ...any) error {
	return &UsageError{Setting: flagName(flag), Message: fmt.Sprintf(format, args...)}
}

// flagName names a setting by its flag and its environment variable. A setting of a sender with a name has neither: it
// is named as the settings file has it.
func flagName(flag string) string {
	if strings.HasPrefix(flag, channelsSection+".") {
		return flag
	}
	return "--" + flag + " (" + environmentName(flag) + ")"
}

// environmentName is the environment variable of a flag.
func environmentName(flag string) string {
	name := strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	switch flag {
	case "redis-url", "database-url":
		return name
	}
	return environmentPrefix + name
}

// usageErrors collects every [*UsageError] in the tree of err.
func usageErrors(err error) []error {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself, node by node
	case nil:
		return nil
	case *UsageError:
		return []error{e}
	case interface{ Unwrap() []error }:
		var all []error
		for _, inner := range e.Unwrap() {
			all = append(all, usageErrors(inner)...)
		}
		return all
	}
	return usageErrors(errors.Unwrap(err))
}
