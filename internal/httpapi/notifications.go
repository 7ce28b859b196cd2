package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/wire"
)

// View is a notification as the API shows it.
type View struct {
	ID          string              `json:"id"`
	UserID      string              `json:"user_id"`
	Category    string              `json:"category"`
	Channel     string              `json:"channel"`
	To          string              `json:"to,omitempty"`
	Title       string              `json:"title,omitempty"`
	Body        string              `json:"body,omitempty"`
	Data        json.RawMessage     `json:"data,omitempty"`
	Priority    string              `json:"priority"`
	SendAt      *time.Time          `json:"send_at,omitempty"`
	ExpiresAt   *time.Time          `json:"expires_at,omitempty"`
	CollapseKey string              `json:"collapse_key,omitempty"`
	GroupKey    string              `json:"group_key,omitempty"`
	CreatedAt   *time.Time          `json:"created_at,omitempty" doc:"When it was accepted. Absent only in the response to a repeat, where the notification is forgotten and its idempotency key does not know."`
	Status      notification.Status `json:"status" enum:"scheduled,queued,deferred,sending,retrying,delivered,failed,expired,cancelled,replaced"`
	Attempts    int                 `json:"attempts" doc:"How often a delivery was attempted."`
	Deferrals   int                 `json:"deferrals" doc:"How often it was deferred to wait for a slot."`
	Reason      string              `json:"reason,omitempty" doc:"Why it waits or ended, or why it will end instead of being sent; then deliver_at is absent."`
	Detail      string              `json:"detail,omitempty" doc:"More about the reason: what the provider replied (its first 500 bytes, secrets and content masked), or when the slot would have been of one that expired for max_defer, or until when quiet hours last and which rule decides then."`
	DeliverAt   *time.Time          `json:"deliver_at,omitempty" doc:"While it waits: when it is expected to be sent."`
	Estimate    bool                `json:"estimate,omitempty" doc:"True when deliver_at is only the earliest moment: too many are before it."`
	Decision    string              `json:"decision,omitempty" enum:"now,deferred,digest,scheduled" doc:"In the response to a request with promise: when it goes, in a word; digest means later, with others as one message."`
	Place       int                 `json:"place,omitempty" doc:"While it waits: its place among what waits of the user, where 1 goes next."`
	Partial     bool                `json:"partial,omitempty" doc:"True when Redis did not tell in time: what waits shows as queued, and is maybe not."`
	Timeline    []Event             `json:"timeline,omitempty"`

	DigestID      string `json:"digest_id,omitempty" doc:"The id of the digest that it went with, which is that of one of its notifications."`
	PolicyVersion string `json:"policy_version,omitempty" doc:"While it waits: the version of the policy by which deliver_at was found; afterwards that which admitted it last."`
	Zone          string `json:"zone,omitempty" doc:"The user's time zone, where quiet hours or calendar days depended on it."`

	Devices []Delivery `json:"devices,omitempty" doc:"For a notification without a target: what became of it on each device."`

	// override is the content in the channel's own format. It shows under the channel's name.
	override json.RawMessage
}

// MarshalJSON implements [json.Marshaler].
func (v View) MarshalJSON() ([]byte, error) {
	type fields View
	text, err := json.Marshal(fields(v))
	if err != nil || len(v.override) == 0 {
		return text, err
	}
	own, err := json.Marshal(map[string]json.RawMessage{v.Channel: v.override})
	if err != nil {
		return nil, err
	}
	return append(append(text[:len(text)-1], ','), own[1:]...), nil
}

// Event is one entry of a timeline.
type Event struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Detail string    `json:"detail,omitempty"`
	Reply  string    `json:"reply,omitempty" doc:"What the provider replied: its first 500 bytes, secrets and content masked."`

	Attempt int     `json:"attempt,omitempty" doc:"Of an attempt: its number."`
	Outcome string  `json:"outcome,omitempty" doc:"Of an attempt: the status that it led to, or crashed; absent while it is under way."`
	Reason  string  `json:"reason,omitempty" doc:"Of an attempt: the class and code of the provider's response."`
	TookMS  float64 `json:"took_ms,omitempty" doc:"Of an attempt: how long it took, in milliseconds, where that is known."`

	PolicyVersion string `json:"policy_version,omitempty" doc:"Of an attempt: the version of the policy that admitted it."`
	Zone          string `json:"zone,omitempty" doc:"Of an attempt: the time zone by which it was admitted, where it mattered."`
}

// show makes the JSON form of a notification.
func show(v *notification.View) View {
	shown := View{
		ID: v.ID, UserID: v.UserID, Category: v.Category, Channel: string(v.Channel), To: v.To, Title: v.Title,
		Body: v.Body,
		Data: v.Data, Priority: v.Priority.String(), SendAt: optional(v.SendAt), ExpiresAt: optional(v.ExpiresAt),
		CollapseKey: v.CollapseKey, GroupKey: v.GroupKey, CreatedAt: optional(v.CreatedAt), Status: v.Status,
		Attempts: v.Attempts, Deferrals: v.Deferrals, Reason: v.Reason, Detail: v.Detail, Partial: v.Partial,
		DeliverAt: optional(v.DeliverAt), Estimate: v.Estimate, override: v.Override,
		DigestID: v.DigestID, PolicyVersion: v.Basis.PolicyVersion, Zone: v.Basis.Zone,
	}
	inBacklog := v.Status == notification.StatusQueued || v.Status == notification.StatusDeferred
	if inBacklog && !v.DeliverAt.IsZero() {
		shown.Place = v.Ahead + 1
	}
	for _, e := range v.Timeline {
		event := Event{At: instant(e.At), Kind: e.Kind, Detail: e.Detail, Reply: e.Reply}
		if a := e.Attempt; a != nil {
			event.Attempt, event.Outcome, event.Reason = a.Number, a.Outcome, a.Reason
			event.TookMS = desk.Milliseconds(a.Took)
			event.PolicyVersion, event.Zone = a.Basis.PolicyVersion, a.Basis.Zone
		}
		shown.Timeline = append(shown.Timeline, event)
	}
	return shown
}

func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = instant(t)
	return &t
}

// acceptedView is the response to the acceptance of a notification. Every repeat gets it again, as far as it is known:
// without the moment of acceptance, nobody knows whether it was scheduled.
func acceptedView(n *notification.Notification, p *notification.Promise) View {
	status := notification.StatusQueued
	if !n.CreatedAt.IsZero() && n.SendAt.After(n.CreatedAt) {
		status = notification.StatusScheduled
	}
	view := show(&notification.View{Notification: *n, Status: status})
	if p != nil {
		view.Decision, view.Place, view.Reason = string(p.Decision), p.Place, p.Reason
		view.DeliverAt, view.Estimate = optional(p.DeliverAt), p.Estimate
	}
	if n.Dropped {
		view.Status, view.Reason = notification.StatusExpired, notification.ReasonOverflow
	}
	return view
}

type postInput struct {
	ContentType     string `header:"Content-Type" hidden:"true"`
	ContentEncoding string `header:"Content-Encoding" hidden:"true"`
	Promise         bool   `query:"promise" doc:"Ask when it will be delivered. The response has decision, deliver_at, reason and place; what could only end as expired is refused as too-late."`
	IdempotencyKey  string `header:"Idempotency-Key" doc:"A repeat with the same key and body gets the first response. At most 255 characters. Kept for 24 h longer than a notification takes that waits for max_defer once and is retried to the end. Where this one takes longer, as in a long pause, Postgres keeps the key until it has ended; Redis forgets it."`
	RawBody         []byte
}

// Resolve implements [huma.Resolver]. The framework would read the first of several keys.
func (*postInput) Resolve(ctx huma.Context) []error {
	given := 0
	ctx.EachHeader(func(name, _ string) {
		if strings.EqualFold(name, "Idempotency-Key") {
			given++
		}
	})
	if given < 2 {
		return nil
	}
	return []error{&huma.ErrorDetail{Location: "Idempotency-Key", Message: "the header is given twice; give one key"}}
}

type postOutput struct {
	Status   int
	Location string `header:"Location"`
	Body     View
}

type idInput struct {
	ID string `path:"id" doc:"Id of the notification."`
}

type viewOutput struct{ Body View }

// problems lists the statuses of the problems that an operation may respond with.
func problems(statuses ...int) []int {
	return append(statuses, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable)
}

func (a *api) registerNotifications(h huma.API) {
	schema := h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.Input](), true, "Notification")
	operation := huma.Operation{
		OperationID: "accept-notification", Method: http.MethodPost, Path: "/v1/notifications",
		Summary: "Accept a notification",
		Description: "A repeat with the same id or idempotency key and the same content gets the first response. With " +
			"promise=true the response says when the notification will be delivered.",
		Tags: []string{"notifications"}, DefaultStatus: http.StatusAccepted,
		MaxBodyBytes: bodyUpTo(wire.MaxBytes),
		Errors: problems(http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity),
		Responses: map[string]*huma.Response{"200": {
			Description: "Accepted before under the same idempotency key or id, with the same content; this is the " +
				"first response",
			Content: map[string]*huma.MediaType{"application/json": {
				Schema: h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[View](), true, "View"),
			}},
		}},
	}
	huma.Register(h, operation, a.post)
	// The body is described here, since this package decodes it more strictly than the framework would.
	post := h.OpenAPI().Paths[operation.Path].Post
	post.RequestBody = &huma.RequestBody{
		Required: true, Content: map[string]*huma.MediaType{mediaJSON: {Schema: schema}},
	}
	for _, refused := range post.Responses["422"].Content {
		refused.Schema = h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[lateProblem](), true, "Refusal")
	}
	huma.Register(h, huma.Operation{
		OperationID: "get-notification", Method: http.MethodGet, Path: "/v1/notifications/{id}",
		Summary:     "Look up a notification",
		Description: "With its status, its attempts and its timeline; deliver_at is when it will go, while it waits.",
		Tags:        []string{"notifications"}, Errors: problems(http.StatusNotFound),
	}, a.get)
	huma.Register(h, huma.Operation{
		OperationID: "cancel-notification", Method: http.MethodDelete, Path: "/v1/notifications/{id}",
		Summary:     "Cancel a waiting notification",
		Description: "A notification that is being delivered, or has ended, is not cancelled: 409.",
		Tags:        []string{"notifications"}, DefaultStatus: http.StatusOK,
		Errors: problems(http.StatusNotFound, http.StatusConflict),
	}, a.cancel)
	a.registerCommands(h)
}

// checkMedia refuses bodies of another media type, and encoded ones.
func checkMedia(contentType, encoding string, accepted ...string) error {
	if encoding != "" && encoding != "identity" {
		return problem(http.StatusUnsupportedMediaType,
			"Content-Encoding "+nearest.Quote(encoding)+" is not understood; send the body without one")
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && slices.Contains(accepted, media) {
		return nil
	}
	said := "Content-Type " + nearest.Quote(contentType) + " is not accepted here"
	if contentType == "" {
		said = "the Content-Type is missing"
	}
	return problem(http.StatusUnsupportedMediaType, said+"; send "+strings.Join(accepted, " or "))
}

func (a *api) post(ctx context.Context, in *postInput) (*postOutput, error) {
	if err := checkMedia(in.ContentType, in.ContentEncoding, "application/json"); err != nil {
		return nil, err
	}
	request, err := wire.Decode(in.RawBody, a.own)
	if err != nil {
		return nil, refusal(err)
	}
	if in.IdempotencyKey != "" {
		if request.IdempotencyKey != "" && request.IdempotencyKey != in.IdempotencyKey {
			return nil, refusal(&notification.FieldError{
				Field: "idempotency_key", Message: "differs from the header Idempotency-Key; give one of the two",
			})
		}
		request.IdempotencyKey = in.IdempotencyKey
	}
	request.Promise = in.Promise
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	results, err := a.cfg.Intake.Accept(ctx, []intake.Request{request})
	if err != nil {
		return nil, a.away(ctx, "accept a notification", err)
	}
	if results[0].Err != nil {
		return nil, refusal(results[0].Err)
	}
	out := &postOutput{Status: http.StatusAccepted, Body: acceptedView(results[0].Notification, results[0].Promise)}
	out.Location = "/v1/notifications/" + out.Body.ID
	if results[0].Known {
		out.Status = http.StatusOK
	}
	return out, nil
}

func (a *api) get(ctx context.Context, in *idInput) (*viewOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	view, err := a.cfg.Desk.View(ctx, in.ID)
	if err != nil {
		return nil, a.lookupProblem(ctx, "look up a notification", in.ID, err)
	}
	shown := show(view)
	if shown.Devices, err = a.deliveries(ctx, &view.Notification); err != nil {
		return nil, a.away(ctx, "look up deliveries", err)
	}
	return &viewOutput{Body: shown}, nil
}

func (a *api) cancel(ctx context.Context, in *idInput) (*viewOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return a.commanded(ctx, "cancel a notification", in.ID, a.cfg.Store.Cancel(ctx, in.ID))
}

// commanded is the response to a command to one notification, which had an error: the notification, or the problem.
func (a *api) commanded(ctx context.Context, what, id string, err error) (*viewOutput, error) {
	if err != nil && !errors.Is(err, notification.ErrNotWaiting) {
		return nil, a.lookupProblem(ctx, what, id, err)
	}
	view, viewErr := a.cfg.Desk.View(ctx, id)
	switch {
	case viewErr != nil:
		return nil, a.lookupProblem(ctx, what, id, viewErr)
	case err != nil:
		return nil, a.lookupProblem(ctx, what, id, &notification.NotWaitingError{ID: id, Status: view.Status})
	}
	return &viewOutput{Body: show(view)}, nil
}

func (a *api) lookupProblem(ctx context.Context, what, id string, err error) error {
	switch {
	case errors.Is(err, notification.ErrNotFound):
		return problem(http.StatusNotFound, fmt.Sprintf(
			"%v: %s was never accepted, or ended so long ago that it is no longer kept", err, nearest.Quote(id)))
	case errors.Is(err, notification.ErrNotWaiting):
		return problem(http.StatusConflict, err.Error())
	}
	return a.away(ctx, what, err)
}
