package httpsend

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

const (
	// WholeReply is how much of a response is read, in bytes.
	WholeReply = 64 << 10
	// finishIn is how long a response may take after its header. What it means stands in the header already; the rest
	// is for people, and to use the connection again.
	finishIn = 2 * time.Second
)

// Finish reads a response to its end, so that the connection can be used again once it is closed, and returns its
// beginning: [push.ReplyRead] for people, [WholeReply] for who parses it. It does not wait for a response that drips:
// it closes that, and tells [push.Drips].
func Finish(ctx context.Context, response *http.Response, beginning int64) string {
	late := time.AfterFunc(finishIn, func() { _ = response.Body.Close() })
	text, err := io.ReadAll(io.LimitReader(response.Body, beginning)) // what could be read has to do
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, WholeReply))
	}
	if !late.Stop() || err != nil {
		push.Drips(ctx)
	}
	return string(text)
}

// Hurry has a response's body end in time, for whoever reads it with other means than [Finish].
func Hurry(ctx context.Context, response *http.Response) {
	body := response.Body
	response.Body = &hurried{ReadCloser: body, late: time.AfterFunc(finishIn, func() {
		push.Drips(ctx)
		_ = body.Close()
	})}
}

// hurried is a body that is closed when it takes too long.
type hurried struct {
	io.ReadCloser
	late *time.Timer
}

// Close implements [io.Closer].
func (h *hurried) Close() error {
	h.late.Stop()
	return h.ReadCloser.Close()
}

// ResponseOf reads what every table looks at: the status, and when to call again.
func ResponseOf(response *http.Response) push.Response {
	return push.Response{
		Status: response.StatusCode, RetryAfter: RetryAfter(response.Header.Get("Retry-After"), time.Now()),
	}
}
