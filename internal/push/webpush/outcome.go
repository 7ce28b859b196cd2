package webpush

import (
	"net/http"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// classify says what the response of a push service means (RFC 8030); nil is delivered.
func classify(response *http.Response) *push.Error {
	failure := httpsend.Classify(response)
	if status := response.StatusCode; status == http.StatusUnauthorized || status == http.StatusForbidden {
		failure.Class = push.CredentialsRefused // this push service refuses them; another may accept them
	}
	return failure
}
