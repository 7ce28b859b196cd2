package ops

import (
	"maps"
	"slices"
)

// Patterns are those of all pages.
func Patterns(cfg Config) []string {
	return slices.Sorted(maps.Keys((&handler{cfg}).routes()))
}

// ChannelsOf joins what processes report of their channels.
func ChannelsOf(names []string, reports []Report) []Channel { return channelsOf(names, reports) }

// NewPoolCollector makes the collector of a process's connections.
var NewPoolCollector = newPoolCollector
