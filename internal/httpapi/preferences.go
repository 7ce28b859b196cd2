package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Users keeps the users' preferences.
type Users interface {
	Preferences(ctx context.Context, userID string) (*notification.Preferences, error)
	// SetPreferences replaces them when they have still the version that was read, or whatever they are when that is
	// [notification.AnyVersion]. A [notification.FieldError] says what is wrong with them.
	SetPreferences(ctx context.Context, userID string, p *notification.Preferences, was int64) error
	ClearPreferences(ctx context.Context, userID string) error
	// CheckPreferences says what is wrong with preferences. SetManyPreferences replaces those of some users, which were
	// checked.
	CheckPreferences(p *notification.Preferences) error
	SetManyPreferences(ctx context.Context, of map[string]*notification.Preferences) error
}

// Preferences is the JSON form of a user's preferences.
type Preferences struct {
	OptOut   OptOut                `json:"opt_out" required:"false" doc:"Notifications of these categories and channels end as cancelled, with the reason opted_out."`
	Limits   map[string]*OwnLimits `json:"limits" required:"false" doc:"Limits that replace those of the policy, by category."`
	TimeZone string                `json:"time_zone,omitempty" doc:"A name such as Europe/Vienna; no offset. The policy's windows and calendar limits go by it. Without it, by the policy's time_zone."`
	// QuietHours and QuietUntil are nil for none.
	QuietHours *QuietHours `json:"quiet_hours,omitempty"`
	QuietUntil *moment     `json:"quiet_until,omitempty" doc:"Nothing goes out before this moment, at most 366 days ahead; then it ends by itself."`
	UpdatedAt  *time.Time  `json:"updated_at,omitempty" readOnly:"true"`
}

// moment is a time that [notification.ParseTime] reads. The library's check of the format knows fewer forms.
type moment string

// Schema implements [huma.SchemaProvider].
func (moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"format": "date-time"}}
}

// showMoment is nil for no time.
func showMoment(t time.Time) *moment {
	if t.IsZero() {
		return nil
	}
	text := moment(t.UTC().Format(time.RFC3339Nano))
	return &text
}

// OptOut names the categories and channels that a user does not want.
type OptOut struct {
	Categories []string `json:"categories" required:"false" nullable:"false" maxItems:"1000"`
	Channels   []string `json:"channels" required:"false" nullable:"false" maxItems:"100"`
}

// OwnLimits are the user limits that replace a category's.
type OwnLimits struct {
	Limits []OwnLimit `json:"limits" required:"false" nullable:"false"`
	MinGap string     `json:"min_gap,omitempty" doc:"A duration such as 5m."`
}

// OwnLimit is one rule.
type OwnLimit struct {
	Max Whole  `json:"max"`
	Per string `json:"per" doc:"A duration such as 1h or 7d, or a period of the calendar: day, week, month."`
}

// Whole is a whole number, which some programs write as 5.0 or 5e0.
type Whole int

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Whole) UnmarshalJSON(text []byte) error {
	if value, err := strconv.ParseFloat(string(text), 64); err == nil && value == math.Trunc(value) &&
		math.Abs(value) <= math.MaxInt32 {
		*n = Whole(value)
		return nil
	}
	return json.Unmarshal(text, (*int)(n))
}

// QuietHours are a user's own, in place of the policy's. The rules read them.
type QuietHours struct{ json.RawMessage }

// Schema implements [huma.SchemaProvider].
func (QuietHours) Schema(huma.Registry) *huma.Schema {
	text := func(doc, pattern string, examples ...any) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: doc, Pattern: pattern, Examples: examples}
	}
	list := func(doc string, of *huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeArray, Description: doc, Items: of}
	}
	const clock = "^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$"
	ranges := func(doc string) *huma.Schema {
		return list(doc, &huma.Schema{
			Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"from", "to"},
			Properties: map[string]*huma.Schema{
				"days": list("Weekdays such as mon, or mon-fri, one at least; absent: every day.", text("", "")),
				"from": text("", clock, "22:00"), "to": text("When it is not after from, it is on the next day.", clock, "08:00"),
			},
		})
	}
	return &huma.Schema{
		Type: huma.TypeObject, Nullable: true, AdditionalProperties: false,
		Description: "The user's own quiet hours, in place of the policy's: a window of the policy, or ranges in the form of one, or off. Where the policy's are required, both hold. Absent or null: the policy's.",
		Properties: map[string]*huma.Schema{
			"window": text("Name of one of the policy's windows.", ""),
			"closed": ranges("When nothing goes out."),
			"open":   ranges("The only times at which anything goes out."),
			"dates":  list("Days on which nothing goes out, such as 2026-12-24.", text("", "")),
			"off":    {Type: huma.TypeBoolean, Description: "True: no quiet hours."},
		},
	}
}

type preferencesInput struct {
	User string `path:"user" doc:"Id of the user, percent-encoded."`
}

type putPreferencesInput struct {
	User    string `path:"user" doc:"Id of the user, percent-encoded."`
	IfMatch string `header:"If-Match" doc:"The ETag of what was read. If the preferences have changed since then, they stay as they are, with 412. Without it, or with *, they are replaced whatever they are."`
	Body    Preferences
}

type preferencesOutput struct {
	ETag string `header:"ETag" doc:"Names this version of the preferences, for If-Match."`
	Body Preferences
}

// etagOf names a version of preferences.
func etagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// matched is the version that an If-Match asks for. What is no ETag of ours is the version of nothing.
func matched(etag string) int64 {
	if etag == "" || etag == "*" {
		return notification.AnyVersion
	}
	version, err := strconv.ParseInt(strings.Trim(etag, `"`), 10, 64)
	if err != nil || etagOf(version) != etag || version < 0 {
		return math.MaxInt64
	}
	return version
}

// preferenceAPI is the part about what users want.
type preferenceAPI struct{ *api }

func (a preferenceAPI) register(h huma.API) {
	const path = "/v1/users/{user}/preferences"
	errs := problems(http.StatusUnprocessableEntity)
	h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Preferences](), true, "Preferences")
	huma.Register(h, huma.Operation{
		OperationID: "get-preferences", Method: http.MethodGet, Path: path, Summary: "Look up a user's preferences",
		Description: "Time zone, quiet hours, opt-outs and limits of the user; empty when none are set.",
		Tags:        []string{"users"}, Errors: errs,
	}, a.getPreferences)
	huma.Register(h, huma.Operation{
		OperationID: "put-preferences", Method: http.MethodPut, Path: path, Summary: "Replace a user's preferences",
		Description:  "Waiting notifications that the user opts out of end as cancelled.",
		MaxBodyBytes: bodyUpTo(1 << 20),
		Tags:         []string{"users"},
		Errors: append(errs, http.StatusBadRequest, http.StatusPreconditionFailed,
			http.StatusRequestEntityTooLarge),
	}, a.putPreferences)
	huma.Register(h, huma.Operation{
		OperationID: "delete-preferences", Method: http.MethodDelete, Path: path,
		Summary:     "Remove a user's preferences",
		Description: "The policy then applies to the user as to everybody else.",
		Tags:        []string{"users"}, DefaultStatus: http.StatusNoContent, Errors: errs,
	}, a.deletePreferences)
	a.registerBulkPreferences(h)
}

// users checks the user's id and returns what keeps the preferences.
func (a preferenceAPI) users(userID string) (Users, error) {
	if err := notification.CheckUserID(userID); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, summary(err))
	}
	return a.cfg.Users, nil
}

func (a preferenceAPI) getPreferences(ctx context.Context, in *preferencesInput) (*preferencesOutput, error) {
	users, err := a.users(in.User)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	p, err := users.Preferences(ctx, in.User)
	if err != nil {
		return nil, a.away(ctx, "look up a user's preferences", err)
	}
	return &preferencesOutput{etagOf(p.Version), showPreferences(p)}, nil
}

func (a preferenceAPI) putPreferences(ctx context.Context, in *putPreferencesInput) (*preferencesOutput, error) {
	users, err := a.users(in.User)
	if err != nil {
		return nil, err
	}
	p, err := in.Body.parse()
	if err != nil {
		return nil, refusal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	switch err := users.SetPreferences(ctx, in.User, p, matched(in.IfMatch)); {
	case errors.Is(err, notification.ErrPreferencesChanged):
		return nil, problem(http.StatusPreconditionFailed, err.Error())
	case len(notification.FieldErrors(err)) > 0:
		return nil, refusal(err)
	case err != nil:
		return nil, a.away(ctx, "write a user's preferences", err)
	}
	return &preferencesOutput{etagOf(p.Version), showPreferences(p)}, nil
}

func (a preferenceAPI) deletePreferences(ctx context.Context, in *preferencesInput) (*struct{}, error) {
	users, err := a.users(in.User)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := users.ClearPreferences(ctx, in.User); err != nil {
		return nil, a.away(ctx, "remove a user's preferences", err)
	}
	return nil, nil //nolint:nilnil // 204: no body
}

// farthestQuiet is how far ahead a user may ask for quiet.
const farthestQuiet = 366 * 24 * time.Hour

// parse turns the JSON form into the form that the store keeps.
func (p Preferences) parse() (*notification.Preferences, error) {
	parsed := &notification.Preferences{
		OptOutCategories: p.OptOut.Categories, OptOutChannels: p.OptOut.Channels, TimeZone: p.TimeZone,
		Limits: map[string]json.RawMessage{},
	}
	var faults []error
	if p.TimeZone != "" {
		if _, err := calendar.ParseZone(p.TimeZone); err != nil {
			faults = append(faults, &notification.FieldError{Field: "time_zone", Message: err.Error()})
		}
	}
	if p.QuietHours != nil && string(p.QuietHours.RawMessage) != "null" {
		parsed.QuietHours = p.QuietHours.RawMessage
	}
	if p.QuietUntil != nil {
		until, err := notification.ParseTime(string(*p.QuietUntil))
		if err == nil && time.Until(until) > farthestQuiet {
			err = errors.New("must be at most 366 days ahead")
		}
		if err != nil {
			faults = append(faults, &notification.FieldError{Field: "quiet_until", Message: err.Error()})
		}
		parsed.QuietUntil = until.UTC().Truncate(time.Microsecond)
	}
	for category, limits := range p.Limits {
		if limits == nil { // no limits at all is an empty object
			faults = append(faults, &notification.FieldError{Field: "limits." + category, Message: "must be an object"})
			continue
		}
		text, err := json.Marshal(limits)
		faults = append(faults, err)
		parsed.Limits[category] = text
	}
	return parsed, errors.Join(faults...)
}

func showPreferences(p *notification.Preferences) Preferences {
	shown := Preferences{
		OptOut: OptOut{
			Categories: append([]string{}, p.OptOutCategories...),
			Channels:   append([]string{}, p.OptOutChannels...),
		},
		TimeZone: p.TimeZone, QuietUntil: showMoment(p.QuietUntil), UpdatedAt: optional(p.UpdatedAt),
		Limits: map[string]*OwnLimits{},
	}
	if len(p.QuietHours) > 0 {
		shown.QuietHours = &QuietHours{p.QuietHours}
	}
	for category, text := range p.Limits {
		own := &OwnLimits{Limits: []OwnLimit{}}
		if json.Unmarshal(text, own) == nil { // pacer wrote it; a text that can't be read is not in force either
			shown.Limits[category] = own
		}
	}
	return shown
}
