// Package timespan writes durations as people do.
package timespan

import (
	"strings"
	"time"
)

// Text writes a duration without the zero parts that [time.Duration.String] keeps: 1h instead of 1h0m0s.
func Text(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Seconds is [Text] in whole seconds, of what has a length: at least 0s.
func Seconds(d time.Duration) string { return Text(max(0, d).Round(time.Second)) }
