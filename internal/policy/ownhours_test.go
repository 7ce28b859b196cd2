package policy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/policy"
)

// A user may have as many dates as a window of the policy, and one more is refused for what it is.
func TestOwnHoursMayHaveEveryDateOfAYear(t *testing.T) {
	t.Parallel()
	text := func(dates int) []byte {
		night := map[string]any{"days": []string{"mon-fri"}, "from": "22:00", "to": "08:00"}
		var all []string
		for i := range dates {
			all = append(all, time.Date(2028, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly))
		}
		data, err := json.Marshal(map[string]any{"closed": []any{night}, "dates": all})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	own, err := policy.ParseOwnHours(text(366))
	if err != nil || len(own.Hours.Dates) != 366 || len(own.Hours.Closed) != 1 {
		t.Errorf("366 dates give %+v, %v", own, err)
	}
	const want = "dates: has 367 entries, more than the 366 that a list may have"
	if _, err := policy.ParseOwnHours(text(367)); err == nil || err.Error() != want {
		t.Errorf("367 dates give %v, want %q", err, want)
	}
}

// Names and texts with characters that YAML or a line would give a meaning stay what they are.
func TestOwnHoursAreRefusedAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"closed": [{"days": ["mon,\n tue"], "from": "22:00", "to": "08:00"}]}`: `is not a weekday`,
		`{"open": [{"days": [], "from": "08:00", "to": "22:00"}]}`:               `open[0].days: names no day; leave it out`,
		`{"closed": [{"from": "22:00", "to": "[,\"]"}]}`:                         `is not a time of day`,
		`{"closed": ` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`:  `nested deeper`,
	} {
		if _, err := policy.ParseOwnHours([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", text, err, want)
		}
	}
}
