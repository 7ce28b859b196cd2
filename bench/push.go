package main

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	webpush "github.com/SherClockHolmes/webpush-go"
	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/payload"
	"github.com/sideshow/apns2/token"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	pacerwebpush "github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/settings"
)

const (
	appleID     = "ABCDE12345"
	bundle      = "com.example.app"
	deviceToken = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
)

func newAppleKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func pacerAPNs(ctx context.Context, o options) (sample, error) {
	key, err := newAppleKey()
	if err != nil {
		return sample{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return sample{}, err
	}
	apple := startProvider(http.StatusOK)
	defer apple.server.Close()
	measured, err := dispatchOver(ctx, o.n, apns.Name, always(deviceToken), settings.Channels{
		APNs: apns.Settings{
			Key:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
			KeyID: appleID, TeamID: appleID, Topic: bundle, Endpoint: apple.server.URL,
		},
	})
	return measured, errors.Join(err, apple.sent(o.n))
}

func bareAPNs(ctx context.Context, o options) (sample, error) {
	key, err := newAppleKey()
	if err != nil {
		return sample{}, err
	}
	apple := startProvider(http.StatusOK)
	defer apple.server.Close()
	client := apns2.NewTokenClient(&token.Token{AuthKey: key, KeyID: appleID, TeamID: appleID})
	client.Host = apple.server.URL
	defer client.HTTPClient.CloseIdleConnections()
	measured, err := sendAll(ctx, o.n, func(int) error {
		response, err := client.Push(&apns2.Notification{
			DeviceToken: deviceToken, Topic: bundle,
			Payload: payload.NewPayload().AlertTitle("hello").AlertBody("world"),
		})
		if err == nil && !response.Sent() {
			err = errors.New(response.Reason)
		}
		return err
	})
	return measured, errors.Join(err, apple.sent(o.n))
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

func pacerWebPush(ctx context.Context, o options) (sample, error) {
	service := startProvider(http.StatusCreated)
	defer service.server.Close()
	subscription, private, _, err := subscribe(service)
	if err != nil {
		return sample{}, err
	}
	to, err := json.Marshal(subscription)
	if err != nil {
		return sample{}, err
	}
	measured, err := dispatchOver(ctx, o.n, pacerwebpush.Name, always(string(to)),
		settings.Channels{WebPush: pacerwebpush.Settings{Key: private, Subject: "mailto:ops@example.com"}})
	return measured, errors.Join(err, service.sent(o.n))
}

func bareWebPush(ctx context.Context, o options) (sample, error) {
	service := startProvider(http.StatusCreated)
	defer service.server.Close()
	subscription, private, public, err := subscribe(service)
	if err != nil {
		return sample{}, err
	}
	transport := transportTo()
	defer transport.CloseIdleConnections()
	measured, err := sendAll(ctx, o.n, func(int) error {
		content := []byte(`{"title":"hello","body":"world"}`)
		response, err := webpush.SendNotificationWithContext(ctx, content, &subscription, &webpush.Options{
			HTTPClient: &http.Client{Transport: transport}, Subscriber: "ops@example.com",
			VAPIDPublicKey: public, VAPIDPrivateKey: private, TTL: 60,
		})
		return finish(response, err)
	})
	return measured, errors.Join(err, service.sent(o.n))
}

// tokenPath is where the provider that plays Firebase gives out access tokens.
const tokenPath = "/token"

// startFirebase runs a provider that plays FCM and Google's token service, and makes a service account's key for it.
func startFirebase() (*provider, string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, "", err
	}
	service := startService(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == tokenPath {
			_, _ = io.WriteString(w, `{"access_token":"t","expires_in":3600,"token_type":"Bearer"}`)
			return false
		}
		_, _ = io.WriteString(w, `{"name":"projects/demo/messages/1"}`)
		return true
	})
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "demo", "client_email": "bench@example.com", "private_key_id": "k1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri":   service.server.URL + tokenPath,
	})
	if err != nil {
		service.server.Close()
		return nil, "", err
	}
	return service, string(account), nil
}

// registration is the token of the i-th device: FCM takes few messages a minute for one.
func registration(i int) string { return "device-" + strconv.Itoa(i) }

func pacerFCM(ctx context.Context, o options) (sample, error) {
	google, account, err := startFirebase()
	if err != nil {
		return sample{}, err
	}
	defer google.server.Close()
	measured, err := dispatchOver(ctx, o.n, fcm.Name, registration, settings.Channels{
		FCM: fcm.Settings{Credentials: account, Endpoint: google.server.URL},
	})
	return measured, errors.Join(err, google.sent(o.n))
}

// bareFCM calls FCM's HTTP v1 with Google's own client of OAuth 2, which is all that Firebase's library needs, too.
func bareFCM(ctx context.Context, o options) (sample, error) {
	service, account, err := startFirebase()
	if err != nil {
		return sample{}, err
	}
	defer service.server.Close()
	config, err := google.JWTConfigFromJSON([]byte(account), "https://www.googleapis.com/auth/firebase.messaging")
	if err != nil {
		return sample{}, err
	}
	transport := transportTo()
	defer transport.CloseIdleConnections()
	client := config.Client(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: transport}))
	url := service.server.URL + "/v1/projects/demo/messages:send"
	type note struct {
		Title string `json:"title"`
		Body  string `json:"body"`
	}
	type message struct {
		Token        string `json:"token"`
		Notification note   `json:"notification"`
	}
	measured, err := sendAll(ctx, o.n, func(i int) error {
		body, err := json.Marshal(map[string]message{
			"message": {Token: registration(i), Notification: note{"hello", strconv.Itoa(i)}},
		})
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(body)))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		return finish(client.Do(request))
	})
	return measured, errors.Join(err, service.sent(o.n))
}
