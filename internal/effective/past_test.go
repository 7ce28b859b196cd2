package effective_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

const nightText = `
version: 1
time_zone: Europe/Berlin
windows: {night: {closed: [{from: "22:00", to: "08:00"}]}}
quiet_hours: {window: night, spread: 10m}
categories:
  default: {limits: [{max: 10, per: 1m}]}
  alarm: {bypass: true}
  news: {quiet_hours: {then: passive}}
  chat: {quiet_hours: {then: "off"}}
  offers: {quiet_hours: {then: drop}}
`

// Moments that have passed, in whatever order they are asked about, are in the night of their own date.
func TestHoursAt(t *testing.T) {
	t.Parallel()
	p := fixed(t, nightText)
	for _, c := range []struct {
		category, zone, at string
		closed             bool
	}{
		{category: "default", at: "2026-10-24T21:59:59+02:00", closed: false},
		{category: "default", at: "2026-10-24T22:00:00+02:00", closed: true},
		{category: "default", at: "2026-10-25T07:59:59+01:00", closed: true}, // the clocks were set back
		{category: "default", at: "2026-10-25T08:00:00+01:00", closed: false},
		{category: "default", at: "2025-07-01T07:59:59+02:00", closed: true},
		{category: "default", at: "2025-07-01T08:00:00+02:00", closed: false},
		{category: "default", zone: "America/New_York", at: "2025-07-01T08:00:00+02:00", closed: true},
		{category: "default", zone: "Asia/Kathmandu", at: "2025-07-01T08:00:00+02:00", closed: false},
		{category: "gone", at: "2025-07-01T03:00:00+02:00", closed: true},
		{category: "offers", at: "2025-07-01T03:00:00+02:00", closed: true},
		{category: "alarm", at: "2025-07-01T03:00:00+02:00", closed: false},
		{category: "news", at: "2025-07-01T03:00:00+02:00", closed: false},
		{category: "chat", at: "2025-07-01T03:00:00+02:00", closed: false},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		moment := throttle.MicrosOf(at)
		if closed := p.HoursAt("ada", c.category, c.zone, moment).Closed.Open(moment) > moment; closed != c.closed {
			t.Errorf("%s of %s in the zone %q is closed: %t, want %t", c.at, c.category, c.zone, closed, c.closed)
		}
	}
}
