package webhook_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

// receiver is a target that speaks HTTP by hand. So it can hang up where a server would not, and it knows when it has
// read everything that was sent.
type receiver struct {
	provider *pushtest.Provider
	listener net.Listener
	conns    sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	met    map[string]bool // the callers up to now, by address
	change chan struct{}   // closed when open or met changes
}

func newReceiver(tb testing.TB, p *pushtest.Provider) *receiver {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	r := &receiver{
		provider: p, listener: listener,
		open: map[net.Conn]struct{}{}, met: map[string]bool{}, change: make(chan struct{}),
	}
	var serving sync.WaitGroup
	serving.Go(r.serve)
	tb.Cleanup(func() {
		r.unplug()
		serving.Wait()
	})
	return r
}

// serve takes connections until the listener is closed, and waits for their end.
func (r *receiver) serve() {
	defer r.conns.Wait()
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.provider.Contact()
		r.changes(func() {
			r.open[conn] = struct{}{}
			r.met[conn.RemoteAddr().String()] = true
		})
		r.conns.Go(func() {
			defer r.hangUp(conn)
			in := bufio.NewReader(conn)
			for r.respond(conn, in) {
			}
		})
	}
}

func (r *receiver) hangUp(conn net.Conn) {
	_ = conn.Close()
	r.changes(func() { delete(r.open, conn) })
}

func (r *receiver) changes(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
	close(r.change)
	r.change = make(chan struct{})
}

// drain waits until every connection of the closed sender has been read to its end. It makes one more connection, which
// the receiver meets last.
func (r *receiver) drain(tb testing.TB) {
	tb.Helper()
	last := ""
	var dialer net.Dialer
	if conn, err := dialer.DialContext(tb.Context(), "tcp", r.listener.Addr().String()); err == nil {
		last = conn.LocalAddr().String()
		_ = conn.Close()
	} // or the listener is closed, and nobody comes any more
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		left, met, change := len(r.open), last == "" || r.met[last], r.change
		r.mu.Unlock()
		if left == 0 && met {
			return
		}
		select {
		case <-change:
		case <-timeout.C:
			tb.Errorf("%d connections of the closed sender stay open", left)
			return
		}
	}
}

// unplug ends the listener and all connections.
func (r *receiver) unplug() {
	_ = r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		_ = conn.Close()
	}
}

// respond reads one call and responds to it. It returns false when the connection is at its end.
func (r *receiver) respond(conn net.Conn, in *bufio.Reader) bool {
	request, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	call, payload, err := read(request)
	if err != nil {
		return false
	}
	a := r.provider.Receive(call)
	status, ok := statuses[a.Kind]
	switch {
	case a.Kind == pushtest.Hangs:
		r.hang(conn)
		return false
	case !ok:
		return false
	}
	return r.reply(conn, status, a.RetryAfter, fmt.Sprintf("%s: %s", request.URL, payload))
}

// statuses are those that a receiver responds with.
var statuses = map[pushtest.Kind]int{
	pushtest.Delivered: http.StatusNoContent, pushtest.Refused: http.StatusUnprocessableEntity,
	pushtest.Failing: http.StatusServiceUnavailable, pushtest.Throttled: http.StatusTooManyRequests,
	pushtest.Gone: http.StatusGone,
}

// read reads a webhook to its end.
func read(request *http.Request) (call pushtest.Call, payload []byte, err error) {
	payload, err = io.ReadAll(request.Body)
	_ = request.Body.Close()
	if err != nil {
		return call, nil, err
	}
	var fields struct {
		Title, Body string
		Data        json.RawMessage
	}
	err = json.Unmarshal(payload, &fields)
	return pushtest.Call{
		Identity: request.Header.Get("Webhook-Id"), Title: fields.Title, Body: fields.Body, Data: fields.Data,
	}, payload, err
}

// serve does as a handler what a receiver does by hand.
func serve(p *pushtest.Provider, w http.ResponseWriter, request *http.Request) {
	call, payload, err := read(request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	pushtest.Respond(p, w, request, p.Receive(call), statuses, fmt.Sprintf("%s: %s", request.URL, payload))
}

// hang waits until the caller hangs up or the case is over.
func (r *receiver) hang(conn net.Conn) {
	gone := make(chan struct{})
	r.conns.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	})
	select {
	case <-gone:
	case <-r.provider.Over():
	}
}

// reply writes a response. Wherever HTTP allows a body, it repeats what was sent.
func (r *receiver) reply(conn net.Conn, status int, retryAfter time.Duration, echo string) bool {
	response := http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	if retryAfter > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	if status != http.StatusNoContent {
		response.ContentLength = int64(len(echo))
		response.Body = io.NopCloser(strings.NewReader(echo))
	}
	return response.Write(conn) == nil
}
