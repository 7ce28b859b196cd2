package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// keyPath is where browsers find the public key for Web Push.
const keyPath = "/v1/webpush/key"

// Key is the key with which a page subscribes a browser.
type Key struct {
	PublicKey string `json:"public_key" doc:"The applicationServerKey, in base64url."`
}

// webPush is the channel whose key is read unless another is named.
const webPush = "webpush"

type keyInput struct {
	Channel string `query:"channel" default:"webpush" doc:"The channel, where there are several Web Push channels."`
}

type keyOutput struct {
	AllowOrigin  string `header:"Access-Control-Allow-Origin"`
	CacheControl string `header:"Cache-Control"`
	Body         Key
}

func (a *api) registerKeys(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "get-webpush-key", Method: http.MethodGet, Path: keyPath,
		Summary: "Read the public key with which browsers subscribe to Web Push",
		Description: "It needs no token, and pages of any site may read it. A page subscribes with it, and its server " +
			"registers the subscription as one of the user's devices.",
		Tags: []string{"devices"}, Security: []map[string][]string{}, Errors: []int{http.StatusNotFound},
	}, a.webPushKey)
}

func (a *api) webPushKey(_ context.Context, in *keyInput) (*keyOutput, error) {
	key := a.cfg.PublicKey(notification.Channel(in.Channel))
	if key == "" && in.Channel != webPush {
		return nil, huma.Error404NotFound("there is no Web Push channel " + nearest.Quote(in.Channel))
	}
	if key == "" {
		return nil, huma.Error404NotFound(
			"Web Push is not configured: set PACER_WEBPUSH_KEY and PACER_WEBPUSH_SUBJECT; dispatcher vapid generate makes a key")
	}
	return &keyOutput{AllowOrigin: "*", CacheControl: "public, max-age=300", Body: Key{PublicKey: key}}, nil
}
