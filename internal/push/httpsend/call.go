package httpsend

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// Within bounds a call whose context does not end before.
func Within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if deadline, ends := ctx.Deadline(); ends && time.Until(deadline) <= timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

// repeatable are the headers with which the standard library makes a call again whose connection ended, though its
// server may have read it. No provider promises to drop such a repeat, and the limits have not admitted it.
var repeatable = []string{"Idempotency-Key", "X-Idempotency-Key"}

// sendOnce keeps the library from that: it looks for the names as they stand above, and servers ignore the case.
func sendOnce(header http.Header) {
	for _, name := range repeatable {
		if values, given := header[name]; given {
			delete(header, name)
			header[strings.ToLower(name)] = values
		}
	}
}

// Do sends a request, bounded by its context, or by the client's timeout when that ends sooner: two timers, and what
// carries them, cost more than the rest of the client.
func Do(client *http.Client, request *http.Request) (*http.Response, error) {
	sendOnce(request.Header)
	if deadline, ends := request.Context().Deadline(); ends && time.Until(deadline) <= client.Timeout {
		own := *client
		own.Timeout, client = 0, &own
	}
	return client.Do(request) //nolint:gosec // G704: the client's connections decide where it may go, see package egress
}

// Call makes one call: it makes the request, sends it, and has the response read, which is to be done with [Finish] or
// [FinishJSON]. An error of request says what is wrong with the notification, and shows no secret.
func Call(ctx context.Context, client *http.Client, request func(context.Context) (*http.Request, error),
	read func(response *http.Response) *push.Error,
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
	response, err := Do(client, made)
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	if failure := read(response); failure != nil {
		return failure
	}
	return nil
}
