package notification_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// All forms of RFC 3339 are read, and others are refused by the rule that they break.
func TestParseTime(t *testing.T) {
	t.Parallel()
	want := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{
		"2027-01-31T00:00:00Z", "2027-01-31t00:00:00z", "2027-01-31 00:00:00.000000Z", "2027-01-30T23:59:60Z",
		"2027-01-31T05:30:00+05:30", "2027-01-31T00:00:00-00:00", "2027-01-30T08:01:00-15:59",
	} {
		if got, err := notification.ParseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"2027-01-31": "time of day", "2027-01-31T00:00:00": "offset", "1999-01-31T00:00:00Z": "year",
		"1800000000": "seconds", "2027-02-30T00:00:00Z": "no such day", "2027-01-31T00:00:00,5Z": "RFC 3339",
		"2027-01-31T24:00:00Z": "RFC 3339", "2027-01-31T00:00:60Z": "RFC 3339", "2027-01-31T00:00:00+16:00": "RFC 3339",
		"2027-01-31T1:00:00Z": "RFC 3339", "tomorrow": "RFC 3339",
	} {
		if got, err := notification.ParseTime(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is %v, %v; want %q", text, got, err, says)
		}
	}
}
