package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pacer-notify/pacer/internal/calendar"
)

// OwnHours are the quiet hours that a user has in place of the policy's.
type OwnHours struct {
	// Off says that the user has none.
	Off bool
	// Window is the name of one of the policy's windows. Hours are the user's own, where Window is empty.
	Window string
	Hours  calendar.Window
}

// ownHoursForm is what ParseOwnHours reads.
const ownHoursForm = `must be {"window": "NAME"} with a window of the policy, {"closed": [{"days": ["mon-fri"], "from": "22:00", "to": "08:00"}], "dates": []}, the same with open, or {"off": true}`

// ParseOwnHours reads a user's quiet hours from JSON: {"window": NAME}, a window in the form of the policy file, or
// {"off": true}. It refuses what the policy file may not have. Whether the policy has the window is not checked.
func ParseOwnHours(text []byte) (*OwnHours, error) {
	var form struct {
		Off    bool            `json:"off,omitempty"`
		Window string          `json:"window,omitempty"`
		Closed json.RawMessage `json:"closed,omitempty"`
		Open   json.RawMessage `json:"open,omitempty"`
		Dates  json.RawMessage `json:"dates,omitempty"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&form); err != nil {
		return nil, errors.New(ownHoursForm)
	}
	own := &OwnHours{Off: form.Off, Window: form.Window}
	ranges, forms := len(form.Closed)+len(form.Open)+len(form.Dates) > 0, 0
	for _, given := range []bool{form.Off, form.Window != "", ranges} {
		if given {
			forms++
		}
	}
	if forms != 1 {
		return nil, errors.New(ownHoursForm)
	}
	if !ranges {
		return own, nil
	}
	// Each element has a line, since a year of dates would be longer than a line of a policy may be.
	var lines bytes.Buffer
	if err := json.Indent(&lines, text, "    ", ""); err != nil {
		return nil, errors.New(ownHoursForm)
	}
	// JSON is YAML, so the policy's parser finds every fault.
	whole, err := Parse("", fmt.Appendf(nil, "version: 1\ncategories: {default: {}}\nwindows:\n  own: %s\n",
		lines.Bytes()))
	if err != nil {
		if first, ok := errors.AsType[*Fault](err); ok {
			message := strings.ReplaceAll(first.Message, "windows.own.", "")
			return nil, errors.New(strings.TrimPrefix(message, "windows.own: "))
		}
		return nil, err
	}
	own.Hours = whole.Windows["own"]
	return own, nil
}
