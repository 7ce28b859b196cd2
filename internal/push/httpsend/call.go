package httpsend

import (
	"context"
	"net/http"

	"github.com/pacer-notify/pacer/internal/push"
)

// Call makes one call: it makes the request, sends it, and reads the response with its beginning. An error of request
// says what is wrong with the notification, and shows no secret.
func Call(ctx context.Context, client *http.Client, request func(context.Context) (*http.Request, error),
	read func(response *http.Response, text string) *push.Error,
) error {
	trace := &Trace{}
	if err := ctx.Err(); err != nil {
		return trace.Classify(err) // HTTP/2 may send on an open connection before it looks
	}
	made, err := request(trace.Attach(ctx))
	if err != nil {
		code := "bad_request"
		if isForbidden(err) {
			code = "forbidden_address"
		}
		return &push.Error{Class: push.Permanent, Code: code, Unsent: true, Err: err}
	}
	response, err := client.Do(made)
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	if failure := read(response, Finish(ctx, response)); failure != nil {
		return failure
	}
	return nil
}
