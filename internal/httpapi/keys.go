package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// keyPath is where browsers find the public key for Web Push.
const keyPath = "/v1/webpush/key"

// Key is the key with which a page subscribes a browser.
type Key struct {
	PublicKey string `json:"public_key" doc:"The applicationServerKey, in base64url."`
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

func (a *api) webPushKey(context.Context, *struct{}) (*keyOutput, error) {
	for _, c := range a.cfg.Channels {
		if c.PublicKey != "" {
			return &keyOutput{
				AllowOrigin: "*", CacheControl: "public, max-age=300", Body: Key{PublicKey: c.PublicKey},
			}, nil
		}
	}
	return nil, huma.Error404NotFound(
		"Web Push is not configured: set PACER_WEBPUSH_KEY and PACER_WEBPUSH_SUBJECT; dispatcher vapid generate makes a key")
}
