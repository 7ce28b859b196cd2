package app

import (
	"io"
	"net/http"
	"time"
)

// discarded is how much of a body net/http reads itself where its handler left it (its maxPostHandlerReadBytes).
const discarded = 256 << 10

// lingering reads a body for as long as the patience, whatever deadline the handler or its framework set. It responds
// at once where a handler refuses a request without reading all of its body, and reads the rest while the client still
// sends. Many clients read no response until they have sent everything, and net/http closes the connection half a
// second after it: they would get "connection reset" instead of the refusal. It is lingering_close of nginx.
func lingering(next http.Handler, patience time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		body := &lingeringBody{of: r.Body, control: control, patience: patience}
		inner := *r
		inner.Body = body
		next.ServeHTTP(w, &inner)
		if body.ended || control.SetReadDeadline(time.Now().Add(patience)) != nil {
			return
		}
		if body.leaves(r) && control.Flush() == nil {
			_, _ = io.Copy(io.Discard, r.Body) // when it fails, the client is gone or too slow
		}
	})
}

// lingeringBody is a request's body that counts what is read of it, and that only the server closes.
type lingeringBody struct {
	of       io.ReadCloser
	control  *http.ResponseController
	patience time.Duration
	read     int64
	begun    bool
	ended    bool // there is no more, or it can't be read
}

// Read implements [io.Reader].
func (b *lingeringBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		if err := b.control.SetReadDeadline(time.Now().Add(b.patience)); err != nil {
			return 0, err
		}
	}
	n, err := b.of.Read(p)
	b.read += int64(n)
	b.ended = b.ended || err != nil
	return n, err
}

// Close implements [io.Closer].
func (*lingeringBody) Close() error { return nil }

// leaves reports whether more is left of the body of a request than net/http reads itself.
func (b *lingeringBody) leaves(r *http.Request) bool {
	if r.Header.Get("Expect") != "" && b.read == 0 { // the client waits until it is told to send
		return false
	}
	return r.ContentLength < 0 || r.ContentLength-b.read > discarded
}
