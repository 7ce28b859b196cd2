package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pacer-notify/pacer/internal/httpapi"
)

// A client may stand still for seconds, and its request may take as long as its handler allows.
func TestListenersArePatient(t *testing.T) {
	t.Parallel()
	const header, body = "POST / HTTP/1.1\r\nHost: pacer\r\nContent-Length: 17\r\n\r\n", `{"user_id":"ada"}`
	for name, c := range map[string]struct{ toConnect, toBegin, toEnd, toHandle time.Duration }{
		"before the header": {toConnect: 20 * time.Second},
		"before the body":   {toBegin: 20 * time.Second},
		"within the body":   {toEnd: 20 * time.Second},
		"in the handler":    {toHandle: 59 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn := connect(t, httpapi.Server(framework(func(ctx context.Context, read []byte) {
					if string(read) != body {
						t.Errorf("the body is %q", read)
					}
					select {
					case <-time.After(c.toHandle):
					case <-ctx.Done():
						t.Errorf("the request is taken for abandoned: %v", ctx.Err())
					}
				})))
				for _, step := range []struct {
					pause time.Duration
					text  string
				}{{c.toConnect, header}, {c.toBegin, body[:5]}, {c.toEnd, body[5:]}} {
					<-time.After(step.pause)
					if _, err := io.WriteString(conn, step.text); err != nil {
						t.Fatal(err)
					}
				}
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if response.StatusCode != http.StatusNoContent {
					t.Errorf("status %d", response.StatusCode)
				}
			})
		})
	}
}

// A scraper that comes every two minutes finds its connection open.
func TestOpsPagesKeepConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := connect(t, opsServer(http.NotFoundHandler()))
		replies := bufio.NewReader(conn)
		for range 3 {
			if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: pacer\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(replies, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			<-time.After(2 * time.Minute)
		}
	})
}

// A body that is refused before all of it is sent is read on: a client that sends everything first would get
// "connection reset" in place of the refusal, or none at all.
func TestRefusedBodiesAreReadOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refuses := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		})
		conn := connect(t, httpapi.Server(refuses))
		const length = 4 << 20 // more than net/http reads itself
		half := strings.Repeat(" ", length/2)
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: pacer\r\nContent-Length: %d\r\n\r\n", length); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", response.StatusCode)
		}
		for range 2 {
			<-time.After(10 * time.Second)
			if n, err := io.WriteString(conn, half); err != nil {
				t.Fatalf("the body can't be sent to its end, only %d bytes more: %v", n, err)
			}
		}
	})
}

// framework makes an API of the framework that the API has, which sets a deadline of its own for a body.
func framework(handle func(ctx context.Context, body []byte)) http.Handler {
	mux := http.NewServeMux()
	huma.Post(humago.New(mux, huma.DefaultConfig("", "")), "/",
		func(ctx context.Context, in *struct{ RawBody []byte }) (*struct{}, error) {
			handle(ctx, in.RawBody)
			return nil, nil
		})
	return mux
}

// connect makes a connection to a server behind a listener.
func connect(t *testing.T, server *http.Server) net.Conn {
	t.Helper()
	pipes := pipes{make(chan net.Conn)}
	l := newListener(pipes, server)
	served := make(chan struct{})
	go func() { defer close(served); l.serve(slog.New(slog.DiscardHandler)) }()
	near, far := net.Pipe()
	pipes.accepted <- far
	t.Cleanup(func() {
		_ = near.Close()
		l.shutdown(context.Background())
		<-served
	})
	return near
}

// pipes is a listener for the connections that a test hands to it.
type pipes struct{ accepted chan net.Conn }

// Accept implements [net.Listener].
func (p pipes) Accept() (net.Conn, error) {
	if conn, open := <-p.accepted; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (p pipes) Close() error { close(p.accepted); return nil }

// Addr implements [net.Listener].
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }
