package main

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
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

	webpush "github.com/SherClockHolmes/webpush-go"
	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/payload"
	"github.com/sideshow/apns2/token"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/apns"
	pacerwebpush "github.com/pacer-notify/pacer/internal/push/webpush"
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
	p := &provider{}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what comes is not the point
		p.calls.Add(1)
		w.WriteHeader(status)
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

const (
	appleID     = "ABCDE12345"
	bundle      = "com.example.app"
	deviceToken = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
)

func newAppleKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func pacerAPNs(ctx context.Context, o options) (float64, error) {
	key, err := newAppleKey()
	if err != nil {
		return 0, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return 0, err
	}
	apple := startProvider(http.StatusOK)
	defer apple.server.Close()
	rate, err := dispatchOver(ctx, o.n, apns.Name, deviceToken, settings.Channels{
		APNs: apns.Settings{
			Key:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
			KeyID: appleID, TeamID: appleID, Topic: bundle, Endpoint: apple.server.URL,
		},
	})
	return rate, errors.Join(err, apple.sent(o.n))
}

func bareAPNs(_ context.Context, o options) (float64, error) {
	key, err := newAppleKey()
	if err != nil {
		return 0, err
	}
	apple := startProvider(http.StatusOK)
	defer apple.server.Close()
	client := apns2.NewTokenClient(&token.Token{AuthKey: key, KeyID: appleID, TeamID: appleID})
	client.Host = apple.server.URL
	defer client.HTTPClient.CloseIdleConnections()
	rate, err := spread(o.n, func(int) error {
		response, err := client.Push(&apns2.Notification{
			DeviceToken: deviceToken, Topic: bundle,
			Payload: payload.NewPayload().AlertTitle("hello").AlertBody("world"),
		})
		if err == nil && !response.Sent() {
			err = errors.New(response.Reason)
		}
		return err
	})
	return rate, errors.Join(err, apple.sent(o.n))
}

// subscribe makes a browser's subscription at the push service, and a deployment's key.
func subscribe(service *provider) (subscription webpush.Subscription, private, public string, err error) {
	browser, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return subscription, "", "", err
	}
	auth := make([]byte, 16)
	_, _ = rand.Read(auth) // never fails
	subscription = webpush.Subscription{Endpoint: service.server.URL + "/push", Keys: webpush.Keys{
		P256dh: base64.RawURLEncoding.EncodeToString(browser.PublicKey().Bytes()),
		Auth:   base64.RawURLEncoding.EncodeToString(auth),
	}}
	private, public, err = webpush.GenerateVAPIDKeys()
	return subscription, private, public, err
}

func pacerWebPush(ctx context.Context, o options) (float64, error) {
	service := startProvider(http.StatusCreated)
	defer service.server.Close()
	subscription, private, _, err := subscribe(service)
	if err != nil {
		return 0, err
	}
	to, err := json.Marshal(subscription)
	if err != nil {
		return 0, err
	}
	rate, err := dispatchOver(ctx, o.n, pacerwebpush.Name, string(to),
		settings.Channels{WebPush: pacerwebpush.Settings{Key: private, Subject: "mailto:ops@example.com"}})
	return rate, errors.Join(err, service.sent(o.n))
}

func bareWebPush(ctx context.Context, o options) (float64, error) {
	service := startProvider(http.StatusCreated)
	defer service.server.Close()
	subscription, private, public, err := subscribe(service)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, MaxIdleConnsPerHost: callers}
	defer transport.CloseIdleConnections()
	rate, err := spread(o.n, func(int) error {
		content := []byte(`{"title":"hello","body":"world"}`)
		response, err := webpush.SendNotificationWithContext(ctx, content, &subscription, &webpush.Options{
			HTTPClient: &http.Client{Transport: transport}, Subscriber: "ops@example.com",
			VAPIDPublicKey: public, VAPIDPrivateKey: private, TTL: 60,
		})
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	})
	return rate, errors.Join(err, service.sent(o.n))
}

// dispatchOver measures pacer's dispatch on a channel, where all users have the same target.
func dispatchOver(
	ctx context.Context, n int, channel notification.Channel, to string, channels settings.Channels,
) (float64, error) {
	return dispatchAll(ctx, n, func(i int) notification.Notification {
		one := oneEach(i)
		one.Channel, one.To = channel, to
		return one
	}, func(r *settings.Resolved) {
		r.Channels, r.WebhookAllow = channels, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
}
