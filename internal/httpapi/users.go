package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Window reports where a user stands in a category.
type Window struct {
	UserID        string    `json:"user_id"`
	Category      string    `json:"category"`
	Allowed       bool      `json:"allowed"`
	TimeLeftMS    int64     `json:"time_left_ms" doc:"Milliseconds until the next notification may go, rounded up."`
	NextAllowedAt time.Time `json:"next_allowed_at"`
	Reason        string    `json:"reason" doc:"The rule that makes the next notification wait, or quiet_hours."`
	Deferred      int       `json:"deferred" doc:"How many notifications wait for a slot."`
	Rules         []Rule    `json:"rules"`
}

// Rule is how far one rule is used.
type Rule struct {
	Max       int        `json:"max"`
	Per       string     `json:"per"`
	Used      int        `json:"used"`
	Remaining int        `json:"remaining"`
	FreesAt   *time.Time `json:"frees_at" doc:"When the next used place becomes free; null when none is used."`
}

type userInput struct {
	User     string `path:"user" doc:"Id of the user, percent-encoded."`
	Category string `query:"category" doc:"Category of the policy; default when absent."`
}

type userOnlyInput struct {
	User string `path:"user" doc:"Id of the user, percent-encoded."`
}

type userOutput struct{ Body desk.User }

type windowOutput struct{ Body Window }

func (a *api) registerUsers(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "get-user", Method: http.MethodGet, Path: "/v1/users/{user}",
		Summary:     "Look up a user: everything that decides whether the user's notifications go out",
		Description: "Windows, preferences and devices of the user, and what waits for the user.",
		Tags:        []string{"users"}, Errors: problems(http.StatusNotFound, http.StatusUnprocessableEntity),
	}, a.user)
	const path = "/v1/users/{user}/throttle"
	huma.Register(h, huma.Operation{
		OperationID: "get-throttle", Method: http.MethodGet, Path: path,
		Summary:     "Ask where a user stands with a category's limits; this changes nothing",
		Description: "time_left_ms is how long the next notification of the category would wait.",
		Tags:        []string{"users"}, Errors: problems(http.StatusUnprocessableEntity),
	}, a.window)
	huma.Register(h, huma.Operation{
		OperationID: "clear-throttle", Method: http.MethodDelete, Path: path,
		Summary:     "Clear a user's windows in a category",
		Description: "The next notifications go out as if the user had got none. Caps keep their windows.",
		Tags:        []string{"users"}, DefaultStatus: http.StatusNoContent,
		Errors: problems(http.StatusUnprocessableEntity),
	}, a.clear)
}

// check checks the user and the category, which is default when none is given.
func (a *api) check(in *userInput) error {
	if in.Category == "" {
		in.Category = "default"
	}
	if err := notification.CheckUserID(in.User); err != nil {
		return problem(http.StatusUnprocessableEntity, summary(err))
	}
	if err := a.cfg.CheckCategory(in.Category); err != nil {
		return problem(http.StatusUnprocessableEntity, summary(err))
	}
	return nil
}

func (a *api) user(ctx context.Context, in *userOnlyInput) (*userOutput, error) {
	if err := notification.CheckUserID(in.User); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, summary(err))
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	u, err := a.cfg.Desk.User(ctx, in.User)
	if other, ok := errors.AsType[*desk.NotThisError](err); ok {
		return nil, problem(http.StatusNotFound, other.Asked+" is a notification, not a user: look it up at /v1/notifications/"+
			other.Asked)
	}
	if err != nil {
		return nil, a.lookupProblem(ctx, "look up a user", in.User, err)
	}
	return &userOutput{Body: *u}, nil
}

func (a *api) window(ctx context.Context, in *userInput) (*windowOutput, error) {
	if err := a.check(in); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	window, err := a.cfg.Throttle.Window(ctx, in.User, in.Category)
	if err != nil {
		return nil, a.away(ctx, "ask the throttle", err)
	}
	return &windowOutput{Body: window}, nil
}

func (a *api) clear(ctx context.Context, in *userInput) (*struct{}, error) {
	if err := a.check(in); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := a.cfg.Throttle.Clear(ctx, in.User, in.Category); err != nil {
		return nil, a.away(ctx, "clear the throttle", err)
	}
	return nil, nil //nolint:nilnil // 204: no body
}
