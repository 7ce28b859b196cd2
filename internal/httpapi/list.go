package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Page is a page of a listing.
type Page struct {
	Items []View `json:"items" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last. A page may hold fewer items than the limit although there is a next one."`
	Note  string `json:"note,omitempty" doc:"What the store does not keep or could not tell, in a sentence for people."`

	Partial bool `json:"partial,omitempty" doc:"True when Redis did not tell all in time: what waits may show as queued, or be missing from those that were asked for."`
}

// listInput are the parameters of desk.ParseFilter, which reads them: a wrong value is told with those there are.
type listInput struct {
	User     string `query:"user" doc:"Id of the user."`
	UserID   string `query:"user_id" doc:"The same as user."`
	Status   string `query:"status" example:"failed,expired" doc:"One or more, with commas between them: scheduled, queued, deferred, sending, retrying, delivered, failed, expired, cancelled, replaced."`
	Category string `query:"category" doc:"Name of a category."`
	Channel  string `query:"channel" doc:"Name of a channel."`
	Reason   string `query:"reason" example:"permanent" doc:"The reason, or how it begins."`
	Host     string `query:"host" doc:"The host of the target."`
	Since    string `query:"since" example:"2h" doc:"Accepted at this RFC 3339 time or later, or at most so long ago."`
	Until    string `query:"until" doc:"Accepted before this RFC 3339 time, or longer ago."`
	Text     string `query:"text" doc:"A part of title or body, in any case, or how the id begins."`
	Limit    string `query:"limit" example:"100" doc:"How many to list, 1 to 1000. Defaults to 100."`
	Cursor   string `query:"cursor" doc:"The next of the page before."`
}

// values are the parameters that were given.
func (in *listInput) values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{
		"user": in.User, "user_id": in.UserID, "status": in.Status, "category": in.Category, "channel": in.Channel,
		"reason": in.Reason, "host": in.Host, "since": in.Since, "until": in.Until, "text": in.Text,
		"limit": in.Limit, "cursor": in.Cursor,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

type listOutput struct{ Body Page }

func (a *api) registerList(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "list-notifications", Method: http.MethodGet, Path: "/v1/notifications",
		Summary:     "List notifications, newest first where Postgres keeps them",
		Description: "A page at a time; next leads to the following one.",
		Tags:        []string{"notifications"}, Errors: problems(http.StatusUnprocessableEntity),
	}, a.list)
}

func (a *api) list(ctx context.Context, in *listInput) (*listOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var page *notification.Page
	filter, err := desk.ParseFilter(ctx, a.cfg.Store, in.values(), a.cfg.Names(), time.Now())
	if err == nil {
		page, err = a.cfg.List(ctx, filter)
	}
	if err != nil {
		if len(notification.FieldErrors(err)) > 0 {
			return nil, problem(http.StatusUnprocessableEntity, summary(err))
		}
		return nil, a.away(ctx, "list notifications", err)
	}
	out := &listOutput{Body: Page{
		Items: make([]View, 0, len(page.Items)), Next: page.Next, Note: page.Note, Partial: page.Partial,
	}}
	for i := range page.Items {
		out.Body.Items = append(out.Body.Items, show(&page.Items[i]))
	}
	return out, nil
}

// refuseUnknownParameters refuses requests with a query parameter that the operation does not take: somebody who
// misspells one would take the response for another one.
func refuseUnknownParameters(h huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		address := ctx.URL()
		if address.RawQuery == "" {
			next(ctx)
			return
		}
		var known []string
		for _, parameter := range ctx.Operation().Parameters {
			if parameter.In == "query" {
				known = append(known, parameter.Name)
			}
		}
		query, err := url.ParseQuery(address.RawQuery)
		if err != nil {
			_ = huma.WriteErr(h, ctx, http.StatusBadRequest, "the query is not percent-encoded as it must be")
			return
		}
		if err := desk.CheckParameters(query, slices.Sorted(slices.Values(known))); err != nil {
			_ = huma.WriteErr(h, ctx, http.StatusUnprocessableEntity, strings.TrimSpace(summary(err)))
			return
		}
		next(ctx)
	}
}
