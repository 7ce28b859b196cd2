package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Page is a page of a listing.
type Page struct {
	Items []View `json:"items" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last. A page may hold fewer items than the limit although there is a next one."`
}

type listInput struct {
	UserID   string    `query:"user_id" maxLength:"256"`
	Status   string    `query:"status" enum:"scheduled,queued,deferred,sending,retrying,delivered,failed,expired,cancelled,replaced"`
	Category string    `query:"category"`
	Since    time.Time `query:"since" doc:"Accepted at this moment or later."`
	Limit    int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor   string    `query:"cursor" doc:"The next of the page before."`
}

type listOutput struct{ Body Page }

func (a *api) registerList(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "list-notifications", Method: http.MethodGet, Path: "/v1/notifications",
		Summary: "List notifications, newest first",
		Tags:    []string{"notifications"}, Errors: problems(http.StatusUnprocessableEntity, http.StatusNotImplemented),
	}, a.list)
}

func (a *api) list(ctx context.Context, in *listInput) (*listOutput, error) {
	if a.cfg.List == nil {
		return nil, errNeedsPostgres()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	page, err := a.cfg.List(ctx, notification.Filter{
		UserID: in.UserID, Status: notification.Status(in.Status), Category: in.Category, Since: in.Since,
		Limit: in.Limit, Cursor: in.Cursor,
	})
	if err != nil {
		if len(notification.FieldErrors(err)) > 0 {
			return nil, problem(http.StatusUnprocessableEntity, summary(err))
		}
		return nil, a.away(ctx, "list notifications", err)
	}
	out := &listOutput{Body: Page{Items: make([]View, 0, len(page.Items)), Next: page.Next}}
	for i := range page.Items {
		out.Body.Items = append(out.Body.Items, show(&page.Items[i]))
	}
	return out, nil
}
