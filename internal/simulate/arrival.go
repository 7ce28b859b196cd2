package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

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
	GroupKey    string    `json:"group_key,omitempty"`
	// Zone is the user's time zone; empty for the policy's.
	Zone string `json:"zone,omitempty"`
	// Outcome is what became of its delivery when it was recorded: delivered (the default) or failed.
	Outcome string `json:"outcome,omitempty"`

	priority notification.Priority
}

// OrderError says that an arrival came before the one above it.
type OrderError struct{ Line int }

// Error says what to do.
func (e *OrderError) Error() string {
	return fmt.Sprintf("line %d: it comes before the line above; arrivals must be in the order of \"at\", or be read with --sort",
		e.Line)
}

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
	for name, at := range map[string]time.Time{"at": a.At, "send_at": a.SendAt, "expires_at": a.ExpiresAt} {
		if year := at.UTC().Year(); (year < 2000 || year > 2100) && (name == "at" || !at.IsZero()) {
			return fmt.Errorf("%s: must lie in the years 2000 to 2100, is %q", name, at.Format(time.RFC3339))
		}
	}
	switch {
	case a.UserID == "":
		return errors.New("user_id: is required")
	case !slices.Contains(categories, a.Category):
		return fmt.Errorf("category: %s is not named in the policy; it names %s%s", nearest.Quote(a.Category),
			nearest.List(categories), nearest.Hint(a.Category, categories))
	case a.Outcome != "" && a.Outcome != string(notification.StatusDelivered) && a.Outcome != string(notification.StatusFailed):
		return fmt.Errorf("outcome: must be delivered or failed, is %s", nearest.Quote(a.Outcome))
	}
	if _, err := time.LoadLocation(a.Zone); err != nil {
		return fmt.Errorf("zone: %s is no time zone", nearest.Quote(a.Zone))
	}
	return nil
}

// longestLine is how long a line may be.
const longestLine = 1 << 20

// Read reads arrivals, one a line, and calls do with each. Empty lines are skipped. An error names the line. With
// sorted it reads all of them before it calls do, and sorts them by time; else it returns an [*OrderError] for one that
// comes before the one above.
func Read(from io.Reader, categories []string, sorted bool, do func(*Arrival) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), longestLine)
	var all []*Arrival
	var before time.Time
	zones := map[string]bool{}
	line := 0
	for lines.Scan() {
		line++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		a, err := parse(text)
		if err == nil {
			err = a.checkOnce(categories, zones)
		}
		switch {
		case err != nil:
			return fmt.Errorf("line %d: %w", line, err)
		case sorted:
			all = append(all, a)
			continue
		case a.At.Before(before):
			return &OrderError{line}
		}
		before = a.At
		if err := do(a); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", line+1, err)
	}
	slices.SortStableFunc(all, func(a, b *Arrival) int { return a.At.Compare(b.At) })
	for _, a := range all {
		if err := do(a); err != nil {
			return err
		}
	}
	return nil
}

// checkOnce is Check, which looks up each zone once.
func (a *Arrival) checkOnce(categories []string, zones map[string]bool) error {
	zone := a.Zone
	if zones[zone] {
		a.Zone = ""
	}
	err := a.Check(categories)
	a.Zone = zone
	zones[zone] = zones[zone] || err == nil
	return err
}

// parse reads one line.
func parse(text []byte) (*Arrival, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	a := &Arrival{}
	if err := decoder.Decode(a); err != nil {
		return nil, fmt.Errorf("is no arrival: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more than one JSON object")
	}
	return a, nil
}
