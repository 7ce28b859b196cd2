package ops

import (
	"maps"
	"slices"

	"github.com/pacer-notify/pacer/internal/stats"
)

// Patterns are those of all pages.
func Patterns(cfg Config) []string {
	return slices.Sorted(maps.Keys((&handler{cfg}).routes()))
}

// ChannelsOf joins what processes report of their channels.
func ChannelsOf(names []string, reports []Report) []Channel { return channelsOf(names, reports) }

// NewPoolCollector makes the collector of a process's connections.
var NewPoolCollector = newPoolCollector

// WithHour is a process's first snapshot: hour is what had ended in the present hour.
func WithHour(s Snapshot, hour stats.Hour) Snapshot {
	s.hour = &hour
	return s
}
