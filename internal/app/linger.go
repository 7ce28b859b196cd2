package app

import (
	"io"
	"net/http"
	"time"
)

const (
	// lingerTime is for how long the rest of a body is read that its handler left unread.
	lingerTime = 30 * time.Second
	// discarded is how much of a body net/http reads itself where its handler left it (its maxPostHandlerReadBytes).
	discarded = 256 << 10
)

// lingering responds at once where a handler refuses a request without reading all of its body, and reads the rest
// while the client still sends. Many clients read no response until they have sent everything, and net/http closes the
// connection half a second after it: they would get "connection reset" instead of the refusal. It is lingering_close of
// nginx.
func lingering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &lingeringBody{of: r.Body}
		inner := *r
		inner.Body = body
		next.ServeHTTP(w, &inner)
		if body.leaves(r) {
			linger(w, r.Body)
		}
	})
}

// linger sends the response, and reads what is left of the body. When it fails, the client is gone or too slow.
func linger(w http.ResponseWriter, body io.Reader) {
	control := http.NewResponseController(w)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, body)
}

// lingeringBody is a request's body that counts what is read of it, and that only the server closes.
type lingeringBody struct {
	of    io.ReadCloser
	read  int64
	ended bool // there is no more, or it can't be read
}

// Read implements [io.Reader].
func (b *lingeringBody) Read(p []byte) (int, error) {
	n, err := b.of.Read(p)
	b.read += int64(n)
	b.ended = b.ended || err != nil
	return n, err
}

// Close implements [io.Closer].
func (*lingeringBody) Close() error { return nil }

// leaves reports whether more is left of the body of a request than net/http reads itself.
func (b *lingeringBody) leaves(r *http.Request) bool {
	switch {
	case b.ended:
		return false
	case r.Header.Get("Expect") != "" && b.read == 0: // the client waits until it is told to send
		return false
	}
	return r.ContentLength < 0 || r.ContentLength-b.read > discarded
}
