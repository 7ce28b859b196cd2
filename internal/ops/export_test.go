package ops

import (
	"maps"
	"slices"
)

// Patterns are those of all pages.
func Patterns(cfg Config) []string {
	return slices.Sorted(maps.Keys((&handler{cfg}).routes()))
}
