package httpsend_test

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// part is what a body sends after a wait. With an error, it is the last.
type part struct {
	after time.Duration
	text  string
	err   error
}

// parts is a body that sends one part after another, until it is closed. Then it ends.
type parts struct {
	left   []part
	closed chan struct{}
}

// Read implements [io.Reader].
func (b *parts) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	next := b.left[0]
	select {
	case <-b.closed:
		return 0, net.ErrClosed
	case <-time.After(next.after):
	}
	if next.err != nil {
		return 0, next.err
	}
	b.left = b.left[1:]
	return copy(p, next.text), nil
}

// Close implements [io.Closer].
func (b *parts) Close() error {
	close(b.closed)
	return nil
}

// Where the meaning stands in the body, it is waited for as long as the request lasts. The rest is not.
func TestTheMeaningIsWaitedFor(t *testing.T) {
	t.Parallel()
	const text, late = `{"code":1}`, 30 * time.Second
	broken := io.ErrUnexpectedEOF
	for name, c := range map[string]struct {
		status  int // defaults to 400
		body    []part
		want    string
		cut     bool
		dripped bool
		took    time.Duration
	}{
		"none": {},
		"soon": {body: []part{{text: text}}, want: text},
		"late": {body: []part{{late, text[:5], nil}, {late, text[5:], nil}}, want: text, took: 2 * late},
		"a late end": {
			body: []part{{text: text}, {late, " ", nil}}, want: text, dripped: true, took: 2 * time.Second,
		},
		"a late success": {status: 200, body: []part{{late, text, nil}}, dripped: true, took: 2 * time.Second},
		"no JSON": {
			body: []part{{text: "<html>"}, {late, " ", nil}}, want: "<html>", dripped: true, took: 2 * time.Second,
		},
		"no JSON, cut": {body: []part{{text: "<html>"}, {err: broken}}, want: "<html>", dripped: true},
		"not closed":   {body: []part{{text: text[:5]}}, want: text[:5]},
		"cut at once":  {body: []part{{err: broken}}, cut: true, dripped: true},
		"cut": {
			body: []part{{text: text[:5]}, {late, "", broken}}, want: text[:5], cut: true, dripped: true, took: late,
		},
		"cut afterwards": {body: []part{{text: text}, {err: broken}}, want: text, dripped: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				response := &http.Response{
					StatusCode: cmp.Or(c.status, http.StatusBadRequest),
					Body:       &parts{left: c.body, closed: make(chan struct{})},
				}
				ctx, dripped := push.WatchDrip(t.Context())
				began := time.Now()
				got, cut := httpsend.FinishRefusal(ctx, response)
				if got != c.want || cut != c.cut || dripped() != c.dripped || time.Since(began) != c.took {
					t.Errorf("%q after %s, cut: %t, dripped: %t; want %q after %s, cut: %t, dripped: %t",
						got, time.Since(began), cut, dripped(), c.want, c.took, c.cut, c.dripped)
				}
			})
		})
	}
}

// No more is read of JSON than of other text, and what has more is not cut.
func TestTooMuchJSONIsNotCut(t *testing.T) {
	t.Parallel()
	text := `{"text":"` + strings.Repeat("x", 1<<20)
	for name, body := range map[string]io.Reader{
		"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
	} {
		response := &http.Response{StatusCode: http.StatusBadRequest, Body: io.NopCloser(body)}
		got, cut := httpsend.FinishJSON(t.Context(), response)
		if got != text[:httpsend.WholeReply] || cut {
			t.Errorf("%s: %d bytes, cut: %t", name, len(got), cut)
		}
	}
}
