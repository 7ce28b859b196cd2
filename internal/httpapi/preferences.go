package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Users keeps the users' preferences.
type Users interface {
	Preferences(ctx context.Context, userID string) (*notification.Preferences, error)
	// SetPreferences replaces them. A [notification.FieldError] says what is wrong with them.
	SetPreferences(ctx context.Context, userID string, p *notification.Preferences) error
	ClearPreferences(ctx context.Context, userID string) error
}

// Preferences is the JSON form of a user's preferences.
type Preferences struct {
	OptOut    OptOut               `json:"opt_out" required:"false" doc:"Notifications of these categories and channels end as cancelled, with the reason opted_out."`
	Limits    map[string]OwnLimits `json:"limits" required:"false" doc:"Limits that replace those of the policy, by category."`
	TimeZone  string               `json:"time_zone,omitempty" doc:"A name such as Europe/Vienna."`
	UpdatedAt *time.Time           `json:"updated_at,omitempty" readOnly:"true"`
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
	Max int    `json:"max"`
	Per string `json:"per" doc:"A duration such as 1h or 7d."`
}

type preferencesInput struct {
	User string `path:"user" doc:"Id of the user, percent-encoded."`
}

type putPreferencesInput struct {
	User string `path:"user" doc:"Id of the user, percent-encoded."`
	Body Preferences
}

type preferencesOutput struct{ Body Preferences }

func (a *api) registerPreferences(h huma.API) {
	const path = "/v1/users/{user}/preferences"
	errs := problems(http.StatusUnprocessableEntity, http.StatusNotImplemented)
	h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Preferences](), true, "Preferences")
	huma.Register(h, huma.Operation{
		OperationID: "get-preferences", Method: http.MethodGet, Path: path, Summary: "Look up a user's preferences",
		Tags: []string{"users"}, Errors: errs,
	}, a.getPreferences)
	huma.Register(h, huma.Operation{
		OperationID: "put-preferences", Method: http.MethodPut, Path: path, Summary: "Replace a user's preferences",
		Description: "Waiting notifications that the user opts out of end as cancelled.", MaxBodyBytes: 1 << 20,
		Tags: []string{"users"}, Errors: append(errs, http.StatusBadRequest, http.StatusRequestEntityTooLarge),
	}, a.putPreferences)
	huma.Register(h, huma.Operation{
		OperationID: "delete-preferences", Method: http.MethodDelete, Path: path,
		Summary: "Remove a user's preferences",
		Tags:    []string{"users"}, DefaultStatus: http.StatusNoContent, Errors: errs,
	}, a.deletePreferences)
}

// errNeedsPostgres is the response to operations that only the store in Postgres has.
func errNeedsPostgres() error {
	return problem(http.StatusNotImplemented, "this needs the store in Postgres: set DATABASE_URL")
}

// users checks the user's id and returns what keeps the preferences.
func (a *api) users(userID string) (Users, error) {
	if err := notification.CheckUserID(userID); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, summary(err))
	}
	if a.cfg.Users == nil {
		return nil, errNeedsPostgres()
	}
	return a.cfg.Users, nil
}

func (a *api) getPreferences(ctx context.Context, in *preferencesInput) (*preferencesOutput, error) {
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
	return &preferencesOutput{Body: showPreferences(p)}, nil
}

func (a *api) putPreferences(ctx context.Context, in *putPreferencesInput) (*preferencesOutput, error) {
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
	if err := users.SetPreferences(ctx, in.User, p); err != nil {
		if len(notification.FieldErrors(err)) > 0 {
			return nil, refusal(err)
		}
		return nil, a.away(ctx, "write a user's preferences", err)
	}
	return &preferencesOutput{Body: showPreferences(p)}, nil
}

func (a *api) deletePreferences(ctx context.Context, in *preferencesInput) (*struct{}, error) {
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

// parse turns the JSON form into the form that the store keeps.
func (p Preferences) parse() (*notification.Preferences, error) {
	parsed := &notification.Preferences{
		OptOutCategories: p.OptOut.Categories, OptOutChannels: p.OptOut.Channels, TimeZone: p.TimeZone,
		Limits: map[string]json.RawMessage{},
	}
	var faults []error
	if _, err := time.LoadLocation(p.TimeZone); err != nil || p.TimeZone == "Local" {
		faults = append(faults, &notification.FieldError{
			Field: "time_zone", Message: "must be the name of a time zone, such as Europe/Vienna",
		})
	}
	for category, limits := range p.Limits {
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
		TimeZone: p.TimeZone, UpdatedAt: optional(p.UpdatedAt), Limits: map[string]OwnLimits{},
	}
	for category, text := range p.Limits {
		own := OwnLimits{Limits: []OwnLimit{}}
		if json.Unmarshal(text, &own) == nil { // pacer wrote it; a text that can't be read is not in force either
			shown.Limits[category] = own
		}
	}
	return shown
}
