package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/processtest"
)

// provider takes all that is sent to it over HTTP/2 with TLS, in this process: both sides of a contest pay for it.
type provider struct {
	server *httptest.Server
	calls  atomic.Int64
}

// startProvider runs a provider that responds with the status.
func startProvider(status int) *provider {
	return startService(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		return true
	})
}

// startService runs a provider that responds as told. Those requests count for which respond returns true.
func startService(respond func(http.ResponseWriter, *http.Request) bool) *provider {
	p := &provider{}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what comes is not the point
		if respond(w, r) {
			p.calls.Add(1)
		}
	}))
	p.server.EnableHTTP2 = true
	p.server.StartTLS()
	return p
}

// trustProviders lets this process trust the certificate that all test servers of net/http have. It must be called
// before the first connection. The certificate is in a file of the returned directory.
func trustProviders() (*processtest.Dir, error) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	dir, err := processtest.NewDir("bench-roots")
	if err != nil {
		return nil, err
	}
	roots := filepath.Join(dir.Path, "roots.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return dir, errors.Join(os.WriteFile(roots, certificate, 0o600), os.Setenv("SSL_CERT_FILE", roots))
}

// sent fails unless each notification was sent once.
func (p *provider) sent(n int) error {
	if calls := p.calls.Load(); calls != int64(n) {
		return fmt.Errorf("the provider was called %d times, want %d", calls, n)
	}
	return nil
}

// afterDispatch is what a bare library and pacer's own dispatch reach, one after the other: each item costs both.
func afterDispatch(bare side) side {
	return func(ctx context.Context, o options) (sample, error) {
		sent, err := bare(ctx, o)
		if err != nil {
			return sample{}, err
		}
		dispatched, err := pacerDispatch(ctx, o)
		if err != nil {
			return sample{}, err
		}
		return sample{
			rate: 1 / (1/sent.rate + 1/dispatched.rate), used: sent.used.plus(dispatched.used),
		}, nil
	}
}

// sendAll measures sending n with a bare library.
func sendAll(ctx context.Context, n int, do func(i int) error) (sample, error) {
	return new(meter).run(ctx, n, func() error { return spread(n, do) })
}

// dispatchOver measures pacer's dispatch on a channel, where the i-th notification goes to the target to(i).
func dispatchOver(
	ctx context.Context, n int, channel notification.Channel, to func(i int) string, channels settings.Channels,
) (sample, error) {
	return dispatchAll(ctx, n, func(i int) notification.Notification {
		one := oneEach(i)
		one.Channel, one.To = channel, to(i)
		return one
	}, func(r *settings.Resolved) {
		r.Channels, r.WebhookAllow = channels, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
}

// always is one target for all.
func always(to string) func(int) string { return func(int) string { return to } }

// transportTo is how a bare library reaches a provider over HTTP/2.
func transportTo() *http.Transport {
	return &http.Transport{ForceAttemptHTTP2: true, MaxIdleConnsPerHost: callers}
}

// finish reads a response to its end, so that its connection can be used again.
func finish(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return errors.New(response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
