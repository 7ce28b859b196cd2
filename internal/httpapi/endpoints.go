package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/endpoints"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/signing"
)

// Endpoints keeps the webhook endpoints.
type Endpoints interface {
	Create(ctx context.Context, f endpoints.Form) (*endpoints.Endpoint, error)
	Get(ctx context.Context, id string) (*endpoints.Endpoint, error)
	List(ctx context.Context, after string, limit int) ([]endpoints.Endpoint, error)
	Update(ctx context.Context, id string, f endpoints.Form) (*endpoints.Endpoint, error)
	Rotate(ctx context.Context, id string, f endpoints.Form) (*endpoints.Endpoint, error)
	Enable(ctx context.Context, id string) (*endpoints.Endpoint, error)
	Remove(ctx context.Context, id string) error
}

// Endpoint is the JSON form of a webhook endpoint.
type Endpoint struct {
	ID          string         `json:"id"`
	URL         string         `json:"url"`
	Description string         `json:"description,omitempty"`
	Signing     string         `json:"signing" enum:"hmac,ed25519"`
	PublicKey   string         `json:"public_key,omitempty" doc:"With ed25519: what receivers verify with, whpk_ and the key."`
	HeaderNames []string       `json:"header_names" nullable:"false" doc:"Of its own headers. Their values may be credentials, and are not shown."`
	Health      EndpointHealth `json:"health"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
}

// EndpointHealth is what became of the deliveries to an endpoint.
type EndpointHealth struct {
	State        string     `json:"state" enum:"ok,failing,disabled"`
	LastSuccess  *time.Time `json:"last_success,omitempty" doc:"While all goes well, noted once an hour."`
	FailingSince *time.Time `json:"failing_since,omitempty" doc:"The first failed attempt since the last success."`
	FailingDays  int        `json:"failing_days" doc:"For how many whole days nothing but failures came of it."`
	Failures     int        `json:"failures" doc:"Failed attempts since failing_since."`
	LastFailure  *time.Time `json:"last_failure,omitempty"`
	Failure      string     `json:"failure,omitempty" doc:"Class and code of the latest failure."`
	Reply        string     `json:"reply,omitempty" doc:"What the endpoint replied then: its first 500 bytes, secrets and content masked."`
	DisabledAt   *time.Time `json:"disabled_at,omitempty"`
	Reason       string     `json:"disabled_reason,omitempty"`
}

// EndpointForm is what may be changed of an endpoint. What is absent stays as it is.
type EndpointForm struct {
	URL         *string            `json:"url,omitempty" doc:"Its health begins anew."`
	Headers     *map[string]string `json:"headers,omitempty" doc:"These replace all that it had."`
	Description *string            `json:"description,omitempty"`
}

// EndpointKey is what replaces its key.
type EndpointKey struct {
	Secret  *string `json:"secret,omitempty" doc:"whsec_… or whsk_… Made when it is absent."`
	Signing *string `json:"signing,omitempty" doc:"hmac or ed25519. Defaults to what it was."`
}

type createEndpointInput struct {
	Body struct {
		ID          *string            `json:"id,omitempty" maxLength:"64" pattern:"^[A-Za-z0-9._:-]+$" doc:"Made by the server when absent."`
		URL         string             `json:"url" example:"https://example.com/hook" doc:"Notifications to this very URL go by its settings. A URL is registered once."`
		Headers     *map[string]string `json:"headers,omitempty" doc:"Sent with each call, at most 20. Not Host, Content-*, Webhook-*, Pacer-*, Proxy-* or those of the connection."`
		Description *string            `json:"description,omitempty" doc:"For people."`
		Secret      *string            `json:"secret,omitempty" doc:"whsec_ and 24 to 64 bytes, or whsk_ and an Ed25519 private key, in base64. Made when it is absent."`
		Signing     *string            `json:"signing,omitempty" doc:"hmac (v1) or ed25519 (v1a). Defaults to hmac, or to what the secret is for."`
	}
}

type endpointInput struct {
	ID string `path:"id" doc:"Id of the endpoint."`
}

type updateEndpointInput struct {
	ID   string `path:"id" doc:"Id of the endpoint."`
	Body EndpointForm
}

type rotateEndpointInput struct {
	ID   string `path:"id" doc:"Id of the endpoint."`
	Body *EndpointKey
}

type listEndpointsInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many to list."`
	Cursor string `query:"cursor" doc:"The next of the page before."`
}

type endpointOutput struct{ Body Endpoint }

type endpointsOutput struct {
	Body struct {
		Items []Endpoint `json:"items" nullable:"false"`
		Next  string     `json:"next,omitempty" doc:"Cursor of the next page; absent on the last."`
	}
}

// EndpointSecret is what a receiver needs to verify calls.
type EndpointSecret struct {
	Secret    string `json:"secret,omitempty" doc:"With hmac: the shared secret, whsec_…"`
	PublicKey string `json:"public_key,omitempty" doc:"With ed25519: whpk_… The private key is never shown."`
}

type endpointSecretOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         EndpointSecret
}

// endpointAPI is the part about webhook endpoints.
type endpointAPI struct{ *api }

func (a endpointAPI) register(h huma.API) {
	const all = "/v1/webhook-endpoints"
	const one = all + "/{id}"
	errs := problems()
	lookUp := append(errs, http.StatusNotFound)
	write := append(lookUp, http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusConflict,
		http.StatusRequestEntityTooLarge)
	operation := func(id, method, path, summary, description string, errs []int) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, Description: description,
			Tags: []string{"webhook endpoints"}, Errors: errs, MaxBodyBytes: bodyUpTo(1 << 16),
		}
	}
	create := operation("create-webhook-endpoint", http.MethodPost, all, "Register a webhook endpoint",
		"Calls to its URL are signed with its own key, carry its headers, and its health is kept. A change is in force in "+
			"all processes within a few seconds.", write)
	create.DefaultStatus = http.StatusCreated
	huma.Register(h, create, a.createEndpoint)
	huma.Register(h, operation("list-webhook-endpoints", http.MethodGet, all, "List the webhook endpoints",
		"With their health, and without secrets and the values of headers.",
		append(errs, http.StatusUnprocessableEntity)), a.listEndpoints)
	huma.Register(h, operation("get-webhook-endpoint", http.MethodGet, one, "Look up a webhook endpoint",
		"With its health, and without its secret and the values of its headers.", lookUp),
		endpointCall(a, "look up a webhook endpoint", Endpoints.Get))
	huma.Register(h, operation("update-webhook-endpoint", http.MethodPatch, one, "Change a webhook endpoint",
		"Members that are absent stay as they are.", write), a.updateEndpoint)
	remove := operation("delete-webhook-endpoint", http.MethodDelete, one, "Remove a webhook endpoint",
		"Calls to its URL are then signed as those to any other.", lookUp)
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(h, remove, a.removeEndpoint)
	huma.Register(h, operation("get-webhook-endpoint-secret", http.MethodGet, one+"/secret",
		"Read what a webhook endpoint's receiver verifies with",
		"The secret of an HMAC key, or the public half of an Ed25519 key.", lookUp), a.endpointSecret)
	huma.Register(h, operation("rotate-webhook-endpoint", http.MethodPost, one+"/rotate",
		"Replace a webhook endpoint's key",
		"The old key signs beside the new one for 24 hours: calls have a signature of each.", write), a.rotateEndpoint)
	huma.Register(h, operation("enable-webhook-endpoint", http.MethodPost, one+"/enable",
		"Enable a disabled webhook endpoint",
		"Its health begins anew. What failed meanwhile is not sent again by itself: dispatcher retry does that.", lookUp),
		endpointCall(a, "enable a webhook endpoint", Endpoints.Enable))
}

// endpointCall makes the handler of a call that only names an endpoint.
func endpointCall(
	a endpointAPI, what string, do func(Endpoints, context.Context, string) (*endpoints.Endpoint, error),
) func(context.Context, *endpointInput) (*endpointOutput, error) {
	return func(ctx context.Context, in *endpointInput) (*endpointOutput, error) {
		return a.endpoint(ctx, what, func(ctx context.Context) (*endpoints.Endpoint, error) {
			return do(a.cfg.Endpoints, ctx, in.ID)
		})
	}
}

// endpoint makes the response of a call that returns an endpoint.
func (a endpointAPI) endpoint(ctx context.Context, what string, do func(context.Context) (*endpoints.Endpoint, error)) (
	*endpointOutput, error,
) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	e, err := do(ctx)
	if err != nil {
		return nil, a.endpointFault(ctx, what, err)
	}
	return &endpointOutput{showEndpoint(e)}, nil
}

// endpointFault is the problem of a call that failed.
func (a endpointAPI) endpointFault(ctx context.Context, what string, err error) error {
	taken, isTaken := errors.AsType[*endpoints.TakenError](err)
	switch {
	case errors.Is(err, endpoints.ErrNotFound):
		return problem(http.StatusNotFound, err.Error())
	case isTaken:
		_, message, _ := strings.Cut(taken.Error(), ": ")
		return problem(http.StatusConflict, taken.Error(),
			&notification.FieldError{Field: taken.Field, Message: message})
	case errors.Is(err, endpoints.ErrTooMany), errors.Is(err, endpoints.ErrRotated):
		return problem(http.StatusConflict, err.Error())
	case len(notification.FieldErrors(err)) > 0:
		return refusal(err)
	}
	return a.away(ctx, what, err)
}

func (a endpointAPI) createEndpoint(ctx context.Context, in *createEndpointInput) (*endpointOutput, error) {
	return a.endpoint(ctx, "register a webhook endpoint", func(ctx context.Context) (*endpoints.Endpoint, error) {
		return a.cfg.Endpoints.Create(ctx, endpoints.Form{
			ID: in.Body.ID, URL: &in.Body.URL, Headers: in.Body.Headers, Description: in.Body.Description,
			Secret: in.Body.Secret, Signing: in.Body.Signing,
		})
	})
}

func (a endpointAPI) updateEndpoint(ctx context.Context, in *updateEndpointInput) (*endpointOutput, error) {
	return a.endpoint(ctx, "change a webhook endpoint", func(ctx context.Context) (*endpoints.Endpoint, error) {
		return a.cfg.Endpoints.Update(ctx, in.ID, endpoints.Form{
			URL: in.Body.URL, Headers: in.Body.Headers, Description: in.Body.Description,
		})
	})
}

func (a endpointAPI) rotateEndpoint(ctx context.Context, in *rotateEndpointInput) (*endpointOutput, error) {
	var form endpoints.Form
	if in.Body != nil {
		form.Secret, form.Signing = in.Body.Secret, in.Body.Signing
	}
	return a.endpoint(ctx, "replace a webhook endpoint's key", func(ctx context.Context) (*endpoints.Endpoint, error) {
		return a.cfg.Endpoints.Rotate(ctx, in.ID, form)
	})
}

func (a endpointAPI) listEndpoints(ctx context.Context, in *listEndpointsInput) (*endpointsOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	all, err := a.cfg.Endpoints.List(ctx, in.Cursor, in.Limit)
	if err != nil {
		return nil, a.away(ctx, "list the webhook endpoints", err)
	}
	out := &endpointsOutput{}
	out.Body.Items = make([]Endpoint, len(all))
	for i := range all {
		out.Body.Items[i] = showEndpoint(&all[i])
	}
	if len(all) == in.Limit {
		out.Body.Next = all[len(all)-1].ID
	}
	return out, nil
}

func (a endpointAPI) removeEndpoint(ctx context.Context, in *endpointInput) (*struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := a.cfg.Endpoints.Remove(ctx, in.ID); err != nil {
		return nil, a.endpointFault(ctx, "remove a webhook endpoint", err)
	}
	return nil, nil //nolint:nilnil // 204: no body
}

// endpointSecret shows a secret to whoever asks for it by name. It is shown nowhere else: a response that is logged or
// kept, as those of other calls are, holds none; and one that got lost can be asked for again.
func (a endpointAPI) endpointSecret(ctx context.Context, in *endpointInput) (*endpointSecretOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	e, err := a.cfg.Endpoints.Get(ctx, in.ID)
	if err != nil {
		return nil, a.endpointFault(ctx, "look up a webhook endpoint", err)
	}
	out := &endpointSecretOutput{CacheControl: "no-store"}
	if key, err := signing.Parse(e.Secret.Reveal()); err == nil && key.Public() != "" {
		out.Body.PublicKey = key.Public()
		return out, nil
	}
	out.Body.Secret = e.Secret.Reveal()
	return out, nil
}

func showEndpoint(e *endpoints.Endpoint) Endpoint {
	shown := Endpoint{
		ID: e.ID, URL: e.URL, Description: e.Description, Signing: string(signing.HMAC), HeaderNames: e.HeaderNames(),
		CreatedAt: instant(e.CreatedAt), UpdatedAt: instant(e.UpdatedAt),
		Health: EndpointHealth{
			State: e.State(), LastSuccess: optional(e.LastSuccess), FailingSince: optional(e.FailingSince),
			FailingDays: e.FailingDays(), Failures: e.Failures, LastFailure: optional(e.LastFailure),
			Failure: e.Failure, Reply: e.Reply, DisabledAt: optional(e.DisabledAt), Reason: e.DisabledBecause,
		},
	}
	if key, err := signing.Parse(e.Secret.Reveal()); err == nil {
		shown.Signing, shown.PublicKey = string(key.Scheme()), key.Public()
	}
	return shown
}
