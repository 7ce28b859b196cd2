package httpsend_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// bound is how long the hosts of these tests may hold up a call.
const bound = 5 * time.Second

// mute makes connections to hosts that read and say nothing.
type mute struct{}

// DialContext implements [httpsend.Dialer].
func (mute) DialContext(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.Copy(io.Discard, theirs)
		_ = theirs.Close()
	}()
	return ours, nil
}

// unreached gives up after a while, as a [net.Dialer] with a Timeout does, or a proxy.
type unreached struct{ proxied bool }

// DialContext implements [httpsend.Dialer].
func (u unreached) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	<-ctx.Done()
	if u.proxied {
		return nil, &httpsend.ProxyError{Setting: setting, Err: ctx.Err()}
	}
	return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
}

// A host that can't be reached, or does not answer the TLS handshake, holds up no call for longer than five
// seconds, whatever time the call has, and whichever call's connection it waits for.
func TestTheOpeningOfAConnectionIsBounded(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]func(*httpsend.Connections) httpsend.Transport{
		"OneProvider": func(c *httpsend.Connections) httpsend.Transport {
			return httpsend.NewHTTP2Transport(nil, c)
		},
		"AnyHost": func(c *httpsend.Connections) httpsend.Transport { return httpsend.NewTransport(nil, c) },
	} {
		for _, c := range []struct {
			name   string
			dialer httpsend.Dialer
			want   string
		}{
			{"Mute", mute{}, "timeout"},
			{"Unreached", unreached{}, "timeout"},
			{"Proxied", unreached{proxied: true}, "proxy.timeout"},
		} {
			t.Run(name+c.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					connections := httpsend.NewConnections(c.dialer)
					client := httpsend.NewClient(transport(connections), time.Hour)
					var all sync.WaitGroup
					// The first call makes the connection. The others wait for it, and must not make another.
					for _, timeout := range []time.Duration{time.Minute, 6 * time.Second, 7 * time.Second, time.Hour} {
						all.Go(func() { checkBound(t, client, timeout, c.want) })
						synctest.Wait()
					}
					all.Wait()
					connections.Close()
				})
			})
		}
	}
}

// checkBound makes a call that has some time, and checks when it fails, and with which code.
func checkBound(t *testing.T, client *http.Client, timeout time.Duration, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	began, trace := time.Now(), &httpsend.Trace{}
	err := get(trace.Attach(ctx), client)
	if took := time.Since(began); took != bound { // by the bubble's clock
		t.Errorf("a call that has %s took %s, want %s", timeout, took, bound)
	}
	if failure := trace.Classify(err); failure.Code != want || !failure.Unsent {
		t.Errorf("it ends with %v, %+v; want %s, unsent", err, failure, want)
	}
}

// get makes a call, and returns why there is no response.
func get(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://push.example.com", nil)
	if err != nil {
		return err
	}
	response, err := httpsend.Do(client, request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
