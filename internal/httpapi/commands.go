package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/wire"
)

// mediaMerge is what a change is, by its media type, besides JSON.
const mediaMerge = "application/merge-patch+json"

type groupInput struct {
	User     string `query:"user" doc:"Id of the user. Required."`
	UserID   string `query:"user_id" doc:"The same as user."`
	GroupKey string `query:"group_key" doc:"The group key. Required."`
}

type groupOutput struct {
	Body struct {
		Cancelled int `json:"cancelled" doc:"How many were cancelled."`
	}
}

type changeInput struct {
	ID              string `path:"id" doc:"Id of the notification."`
	ContentType     string `header:"Content-Type" hidden:"true"`
	ContentEncoding string `header:"Content-Encoding" hidden:"true"`
	RawBody         []byte
}

// registerCommands registers what is commanded to notifications that wait, besides the cancelling of one.
func (a *api) registerCommands(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "cancel-group", Method: http.MethodDelete, Path: "/v1/notifications",
		Summary:     "Cancel what waits of a user with a group key",
		Description: "What is being delivered goes on.",
		Tags:        []string{"notifications"}, DefaultStatus: http.StatusOK,
		Errors: problems(http.StatusUnprocessableEntity),
	}, a.cancelGroup)
	change := huma.Operation{
		OperationID: "change-notification", Method: http.MethodPatch, Path: "/v1/notifications/{id}",
		Summary: "Change a waiting notification",
		Description: "What is left out stays as it is. The response says when it will go now. A notification that is being " +
			"delivered, or has ended, is not changed: 409.",
		Tags: []string{"notifications"}, MaxBodyBytes: bodyUpTo(wire.MaxChange),
		Errors: problems(http.StatusBadRequest, http.StatusNotFound, http.StatusConflict,
			http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity),
	}
	huma.Register(h, change, a.change)
	schema := h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.Change](), true, "Change")
	for _, field := range []string{"send_at", "expires_at"} {
		property := h.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref).Properties[field]
		property.Type, property.Format, property.Nullable = huma.TypeString, "date-time", true
	}
	h.OpenAPI().Paths[change.Path].Patch.RequestBody = &huma.RequestBody{
		Required: true, Content: map[string]*huma.MediaType{mediaJSON: {Schema: schema}, mediaMerge: {Schema: schema}},
	}
	huma.Register(h, huma.Operation{
		OperationID: "release-notification", Method: http.MethodPost, Path: "/v1/notifications/{id}/release",
		Summary: "Let a waiting notification go at once",
		Description: "It waits for no limit, gap, quiet hours or send_at, and counts in the user's windows. A pause still " +
			"holds it. A notification that is being delivered, or has ended, is not released: 409.",
		Tags: []string{"notifications"}, DefaultStatus: http.StatusOK,
		Errors: problems(http.StatusNotFound, http.StatusConflict),
	}, a.release)
}

func (a *api) cancelGroup(ctx context.Context, in *groupInput) (*groupOutput, error) {
	user := cmp.Or(in.User, in.UserID)
	err := errors.Join(notification.CheckUserID(user), notification.CheckGroupKey(in.GroupKey))
	if err != nil {
		return nil, problem(http.StatusUnprocessableEntity, summary(err))
	}
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	out := &groupOutput{}
	if out.Body.Cancelled, err = a.cfg.Store.CancelGroup(ctx, user, in.GroupKey); err != nil {
		return nil, a.away(ctx, "cancel the notifications of a group", err)
	}
	return out, nil
}

func (a *api) change(ctx context.Context, in *changeInput) (*viewOutput, error) {
	if err := checkMedia(in.ContentType, in.ContentEncoding, mediaJSON, mediaMerge); err != nil {
		return nil, err
	}
	change, err := wire.DecodeChange(in.RawBody)
	if err != nil {
		return nil, refusal(err)
	}
	return a.changeTo(ctx, in.ID, change)
}

func (a *api) release(ctx context.Context, in *idInput) (*viewOutput, error) {
	return a.changeTo(ctx, in.ID, notification.Change{Release: true})
}

func (a *api) changeTo(ctx context.Context, id string, change notification.Change) (*viewOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := a.cfg.Store.Change(ctx, id, change)
	if len(notification.FieldErrors(err)) > 0 {
		return nil, refusal(err)
	}
	return a.commanded(ctx, "change a notification", id, err)
}
