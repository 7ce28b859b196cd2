package httpsend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

const (
	// WholeReply is how much of a response is read, in bytes.
	WholeReply = 64 << 10
	// finishIn is how long a response may take once it is known what it means. The rest is for people, and to use the
	// connection again.
	finishIn = 2 * time.Second
)

// Failures is the part of a table that all HTTP providers share. What a proxy before the provider may have said, or the
// provider after it began, may have reached somebody.
var Failures = push.Table{
	{Status: 408, Class: push.Ambiguous, Concerns: push.ConcernsHost},
	{Status: 5, Class: push.Ambiguous, Concerns: push.ConcernsHost},
	{Status: 500, Class: push.Transient, Concerns: push.ConcernsHost},
	{Status: 503, Class: push.Transient, Concerns: push.ConcernsHost},
}

// Finish reads a response to its end, so that the connection can be used again once it is closed, and returns its
// beginning. It does not wait for a response that drips: it closes that, and tells [push.Drips].
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

// FinishJSON is [Finish] for a response whose meaning stands in its body, which is JSON: until that is complete, the
// response may take as long as its request. It also reports whether the response was cut before: its connection or its
// request ended, so that what it means may have stood in the rest. A body that is no JSON, or has more than
// [WholeReply], is not cut; what it means does not stand there.
func FinishJSON(ctx context.Context, response *http.Response) (text string, cut bool) {
	var beginning bytes.Buffer
	body := &watched{Reader: response.Body}
	read := io.TeeReader(io.LimitReader(body, WholeReply), &beginning)
	err := json.NewDecoder(read).Decode(&json.RawMessage{})
	if _, other := errors.AsType[*json.SyntaxError](err); err != nil && !other && body.failed {
		push.Drips(ctx)
		return beginning.String(), true
	}
	rest := Finish(ctx, response, WholeReply-int64(beginning.Len()))
	return beginning.String() + rest, false
}

// FinishRefusal is [Finish] for a success, and [FinishJSON] for any other response: for providers that tell a success
// by the status, and in the body why they refuse.
func FinishRefusal(ctx context.Context, response *http.Response) (text string, cut bool) {
	if response.StatusCode == http.StatusOK {
		return Finish(ctx, response, push.ReplyRead), false
	}
	return FinishJSON(ctx, response)
}

// watched is a body, and whether it failed before its end. The decoder does not tell that from JSON that is not closed.
type watched struct {
	io.Reader
	failed bool
}

// Read implements [io.Reader].
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.failed = w.failed || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// ResponseOf reads what every table looks at: the status, and when to call again.
func ResponseOf(response *http.Response) push.Response {
	return push.Response{
		Status: response.StatusCode, RetryAfter: RetryAfter(response.Header.Get("Retry-After"), time.Now()),
	}
}
