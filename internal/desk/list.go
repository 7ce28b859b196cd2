package desk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
)

// Lister finds notifications. Whatever the filter, a page costs a bounded amount of work.
type Lister interface {
	List(ctx context.Context, f notification.Filter) (*notification.Page, error)
	// Find is List for ids only. It may return some that the filter does not select, see [notification.Found].
	Find(ctx context.Context, f notification.Filter) (*notification.Found, error)
}

// Names are the names that a query may use.
type Names struct{ Categories, Channels []string }

// Listing is a page of notifications, as the ops pages and the command line show it: without their contents.
//
//	{"items": [{"id": "…", "user_id": "ada", "category": "chat", "channel": "webhook", "host": "hooks.example",
//	  "priority": "normal", "status": "failed", "reason": "permanent: 400", "attempts": 1, "deferrals": 0,
//	  "created_at": "…", "deliver_at": "…"}], "next": "cursor", "note": "a sentence"}
type Listing struct {
	Items []Listed `json:"items"`
	// Next is the cursor of the next page; absent on the last. A page may hold fewer items than the limit although
	// there is a next one.
	Next string `json:"next,omitempty"`
	// Note says what the store does not keep, or could not tell.
	Note string `json:"note,omitempty"`
	// Partial is true when Redis did not tell all in time: Note says it in words.
	Partial bool `json:"partial,omitempty"`
}

// Listed is one notification of a [Listing].
type Listed struct {
	ID       string              `json:"id"`
	UserID   string              `json:"user_id"`
	Category string              `json:"category"`
	Channel  string              `json:"channel"`
	Host     string              `json:"host,omitempty"`
	Priority string              `json:"priority"`
	Status   notification.Status `json:"status"`
	Reason   string              `json:"reason,omitempty"`
	// Detail says until when quiet hours hold it, by the clock of the user, or why it will end instead of going out.
	Detail   string `json:"detail,omitempty"`
	Attempts int    `json:"attempts"`
	// Deferrals counts how often it was sent back to wait for a slot.
	Deferrals int       `json:"deferrals"`
	CreatedAt time.Time `json:"created_at"`
	DeliverAt time.Time `json:"deliver_at,omitzero"`
}

// Because is the reason, where the status does not say it.
func (l Listed) Because() string {
	if l.Reason == string(l.Status) {
		return ""
	}
	return l.Reason
}

// List reads a query as [ParseFilter] does, and returns the page.
func (m *Many) List(ctx context.Context, query url.Values) (*Listing, error) {
	names := m.Names()
	f, err := ParseFilter(ctx, m.Store, query, names, time.Now())
	if err != nil {
		return nil, err
	}
	page, err := m.Store.List(ctx, f)
	if err != nil {
		return nil, err
	}
	listing := &Listing{Items: make([]Listed, len(page.Items)), Next: page.Next, Note: page.Note, Partial: page.Partial}
	for i := range page.Items {
		v := &page.Items[i]
		listing.Items[i] = Listed{
			ID: v.ID, UserID: v.UserID, Category: v.Category, Channel: string(v.Channel),
			Host: notification.HostOf(v.To), Priority: v.Priority.String(), Status: v.Status, Reason: v.Reason,
			Attempts: v.Attempts, Deferrals: v.Deferrals, CreatedAt: v.CreatedAt.UTC(), DeliverAt: v.DeliverAt,
		}
		switch {
		case v.Status.Waiting() && !slices.Contains(names.Categories, v.Category):
			listing.Items[i].Reason, listing.Items[i].DeliverAt = notification.ReasonRemoved, time.Time{}
		case v.Doomed, v.Status.Waiting() && v.Reason == notification.ReasonQuietHours:
			listing.Items[i].Detail = v.Detail
		}
	}
	return listing, nil
}

const (
	// DefaultLimit and MaxLimit say how many notifications a page has.
	DefaultLimit = 100
	MaxLimit     = 1000
	// maxText bounds what is searched for, in bytes.
	maxText = 256
)

// parameters are the parameters of a query for notifications, each with the function that reads it.
var parameters = map[string]func(f *notification.Filter, value string, names Names, now time.Time) error{
	"user":    setUser,
	"user_id": setUser,
	"status":  setStatuses,
	"category": func(f *notification.Filter, value string, names Names, _ time.Time) error {
		f.Category = value
		return oneOf("category", value, names.Categories)
	},
	"channel": func(f *notification.Filter, value string, names Names, _ time.Time) error {
		f.Channel = notification.Channel(value)
		return oneOf("channel", value, names.Channels)
	},
	"reason": setText(func(f *notification.Filter, value string) { f.Reason = value }),
	"host":   setText(func(f *notification.Filter, value string) { f.Host = strings.ToLower(value) }),
	"text":   setText(func(f *notification.Filter, value string) { f.Text = value }),
	"since":  setMoment(func(f *notification.Filter, at time.Time) { f.Since = at }),
	"until":  setMoment(func(f *notification.Filter, at time.Time) { f.Until = at }),
	"limit": func(f *notification.Filter, value string, _ Names, _ time.Time) (err error) {
		if f.Limit, err = strconv.Atoi(value); err != nil || f.Limit < 1 || f.Limit > MaxLimit {
			return fmt.Errorf("must be a number from 1 to %d, is %q", MaxLimit, value)
		}
		return nil
	},
	"cursor": setText(func(f *notification.Filter, value string) { f.Cursor = value }),
}

// ParameterNames lists the parameters of a query for notifications.
func ParameterNames() []string { return slices.Sorted(maps.Keys(parameters)) }

// ParseFilter reads a query for notifications, such as status=failed,expired&since=2h. It returns a
// [notification.FieldError] for each parameter that does not exist or has a wrong value, with the nearest that exists.
// A category that the policy lost exists as long as the store's history has it.
func ParseFilter(ctx context.Context, store HistoryStore, query url.Values, names Names, now time.Time,
) (notification.Filter, error) {
	names, err := names.withPast(ctx, store, query.Get("category"), now)
	if err != nil {
		return notification.Filter{}, err
	}
	f, faults := notification.Filter{Limit: DefaultLimit}, []error{CheckParameters(query, ParameterNames())}
	for _, name := range ParameterNames() {
		value := query.Get(name)
		if value == "" {
			continue
		}
		if err := checkText(value); err != nil {
			faults = append(faults, &notification.FieldError{Field: name, Message: err.Error()})
		} else if err := parameters[name](&f, value, names, now); err != nil {
			faults = append(faults, &notification.FieldError{Field: name, Message: err.Error()})
		}
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		faults = append(faults, &notification.FieldError{Field: "until", Message: "must be later than since"})
	}
	return f, errors.Join(faults...)
}

// CheckParameters refuses parameters that a call does not take, and those that are given twice.
func CheckParameters(query url.Values, known []string) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(known, name):
			faults = append(faults, &notification.FieldError{Field: cut(name), Message: unknownParameter(name, known)})
		case len(query[name]) > 1:
			faults = append(faults, &notification.FieldError{Field: name, Message: "is given more than once"})
		}
	}
	return errors.Join(faults...)
}

func unknownParameter(name string, known []string) string {
	if len(known) == 0 {
		return "is not a parameter of this call, which takes none"
	}
	return "is not a parameter of this call, which takes " + nearest.List(known) + nearest.Hint(name, known)
}

// cut shortens what a client made up, so that it does not fill the response.
func cut(text string) string {
	if len(text) > 64 {
		return strings.ToValidUTF8(text[:64], "") + "…"
	}
	return text
}

// oneOf refuses a value that is none of those there are.
func oneOf(what, value string, there []string) error {
	if slices.Contains(there, value) {
		return nil
	}
	return fmt.Errorf("unknown %s %q: use one of %s%s", what, cut(value), nearest.List(there), nearest.Hint(value, there))
}

func checkText(value string) error {
	if len(value) > maxText {
		return fmt.Errorf("may have at most %d bytes, has %d", maxText, len(value))
	}
	if strings.ContainsFunc(value, unicode.IsControl) || strings.ToValidUTF8(value, "") != value {
		return errors.New("must be UTF-8 without control characters")
	}
	return nil
}

func setUser(f *notification.Filter, value string, _ Names, _ time.Time) error {
	if f.UserID != "" && f.UserID != value {
		return errors.New("differs from user, which is the same parameter")
	}
	f.UserID = value
	return nil
}

// setStatuses reads one or more statuses with commas between them.
func setStatuses(f *notification.Filter, value string, _ Names, _ time.Time) error {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if err := oneOf("status", name, statusNames()); err != nil {
			return err
		}
		if s := notification.Status(name); !slices.Contains(f.Statuses, s) {
			f.Statuses = append(f.Statuses, s)
		}
	}
	return nil
}

func statusNames() []string {
	var names []string
	for _, s := range notification.Statuses() {
		names = append(names, string(s))
	}
	return names
}

func setText(set func(*notification.Filter, string),
) func(*notification.Filter, string, Names, time.Time) error {
	return func(f *notification.Filter, value string, _ Names, _ time.Time) error {
		set(f, value)
		return nil
	}
}

// setMoment reads an RFC 3339 time, or how long ago the moment was.
func setMoment(set func(*notification.Filter, time.Time),
) func(*notification.Filter, string, Names, time.Time) error {
	return func(f *notification.Filter, value string, _ Names, now time.Time) error {
		at, err := ParseMoment(value, now)
		set(f, at)
		return err
	}
}

// ParseMoment reads an RFC 3339 time, or a duration: how long before now.
func ParseMoment(value string, now time.Time) (time.Time, error) {
	if at, err := notification.ParseTime(value); err == nil {
		return at, nil
	}
	ago, err := policy.ParseDuration(value)
	if err != nil || ago < 0 {
		return time.Time{}, fmt.Errorf("must be a time such as 2026-01-02T15:04:05Z, or how long ago, such as 2h; is %q",
			cut(value))
	}
	return now.Add(-ago), nil
}
