package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
)

// Arrival is a notification that came, as one line of JSON says it.
type Arrival struct {
	At          time.Time `json:"at"`
	UserID      string    `json:"user_id"`
	Category    string    `json:"category,omitempty"` // defaults to "default"
	Priority    string    `json:"priority,omitempty"` // defaults to "normal"
	Channel     string    `json:"channel,omitempty"`
	SendAt      time.Time `json:"send_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	CollapseKey string    `json:"collapse_key,omitempty"`
	GroupKey    string    `json:"group_key,omitempty"` // changes nothing
	// Zone is the user's time zone; empty for the policy's.
	Zone string `json:"zone,omitempty"`
	// Outcome is what became of its delivery when it was recorded: delivered (the default) or failed.
	Outcome string `json:"outcome,omitempty"`

	priority notification.Priority
}

// The outcomes of a delivery.
const (
	Delivered = string(notification.StatusDelivered)
	Failed    = string(notification.StatusFailed)
)

// Check completes an arrival, and says what is wrong with it.
func (a *Arrival) Check(categories []string) error {
	if a.Category == "" {
		a.Category = policy.DefaultCategory
	}
	known := false
	if a.priority = notification.PriorityNormal; a.Priority != "" {
		if a.priority, known = notification.ParsePriority(a.Priority); !known {
			return fmt.Errorf("priority: must be critical, high, normal or low, is %s", nearest.Quote(a.Priority))
		}
	}
	for _, moment := range [...]struct {
		of string
		at time.Time
	}{{"at", a.At}, {"send_at", a.SendAt}, {"expires_at", a.ExpiresAt}} {
		if year := moment.at.UTC().Year(); (year < 2000 || year > 2100) && !moment.at.IsZero() {
			return fmt.Errorf("%s: must lie in the years 2000 to 2100, is %q", moment.of,
				moment.at.Format(time.RFC3339))
		}
	}
	switch {
	case a.At.IsZero():
		return errors.New("at: is required")
	case a.UserID == "":
		return errors.New("user_id: is required")
	case !slices.Contains(categories, a.Category):
		return fmt.Errorf("category: %s is not named in the policy; it names %s%s", nearest.Quote(a.Category),
			nearest.List(categories), nearest.Hint(a.Category, categories))
	case a.Outcome != "" && a.Outcome != Delivered && a.Outcome != Failed:
		return fmt.Errorf("outcome: must be delivered or failed, is %s", nearest.Quote(a.Outcome))
	}
	if _, known := knownZones.Load(a.Zone); !known && a.Zone != "" {
		if _, err := calendar.ParseZone(a.Zone); err != nil {
			return fmt.Errorf("zone: %w", err)
		}
		knownZones.Store(a.Zone, true)
	}
	return nil
}

// knownZones are zones that were looked up, which takes long.
var knownZones sync.Map

// longestLine is how long a line may be.
const longestLine = 1 << 20

// Read reads arrivals, one a line, and calls do with each. Empty lines are skipped. An error names the line. With
// sorted it reads all of them before it calls do, and sorts them by time; else one that comes before the one above is
// an error.
func Read(from io.Reader, categories []string, sorted bool, do func(*Arrival) error) error {
	var all []*Arrival
	var before time.Time
	err := eachLine(from, func(r *reader, text []byte) error {
		a, err := r.read(text)
		if err == nil {
			err = a.Check(categories)
		}
		switch {
		case err != nil:
			return err
		case sorted:
			all = append(all, a)
			return nil
		case a.At.Before(before):
			return errors.New("comes before the line above; sort the arrivals by \"at\", or use --sort")
		}
		before = a.At
		return do(a)
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b *Arrival) int { return a.At.Compare(b.At) })
	for _, a := range all {
		if err := do(a); err != nil {
			return err
		}
	}
	return nil
}

// eachLine calls do with each line that is not empty. An error of it gets the number of the line.
func eachLine(from io.Reader, do func(*reader, []byte) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), longestLine)
	var r reader
	line := 1
	for ; lines.Scan(); line++ {
		text := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff")))
		if len(text) == 0 {
			continue
		}
		if err := do(&r, text); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: is longer than 1 MiB", line)
	}
	return lines.Err()
}

// reader reads arrivals off lines.
type reader struct {
	line    bytes.Reader
	decoder *json.Decoder // of all lines: making one takes longer than reading
}

// read reads one line.
func (r *reader) read(text []byte) (*Arrival, error) {
	if r.decoder == nil {
		r.decoder = json.NewDecoder(&r.line)
		r.decoder.DisallowUnknownFields()
	}
	r.line.Reset(text)
	a, from := &Arrival{}, r.decoder.InputOffset()
	err := r.decoder.Decode(a)
	wrong, ofType := errors.AsType[*json.UnmarshalTypeError](err)
	_, ofTime := errors.AsType[*time.ParseError](err)
	switch {
	case bytes.HasPrefix(text, []byte("\x1f\x8b")):
		return nil, errors.New("is compressed: unpack it, or pipe it unpacked into --from -")
	case ofType && wrong.Field != "":
		return nil, fmt.Errorf("%s: must be a string, is a %s", wrong.Field, wrong.Value)
	case ofTime || err != nil && strings.HasPrefix(err.Error(), "Time.UnmarshalJSON"):
		return nil, fmt.Errorf("moments must be written like \"2026-01-02T15:04:05Z\": %w", err)
	case err != nil:
		return nil, fmt.Errorf("is no arrival: %w", err)
	case r.decoder.InputOffset()-from < int64(len(text)):
		return nil, errors.New("has more than one JSON object")
	}
	return a, nil
}
