package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/secret"
)

// A receiver verifies the signature before it believes a webhook. Every library of standardwebhooks.com can do it. A
// repeat has the same webhook-id, by which the receiver drops it.
func ExampleSender_verify() {
	const signing = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // of --webhook-secret
	verifier, err := standardwebhooks.NewWebhook(signing)
	if err != nil {
		fmt.Println(err)
		return
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || verifier.Verify(body, r.Header) != nil {
			fmt.Println("not from pacer")
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var notification struct{ Title string }
		_ = json.Unmarshal(body, &notification)
		id, attempt := r.Header.Get("Webhook-Id"), r.Header.Get("Pacer-Attempt")
		fmt.Printf("%s, attempt %s: %s\n", id, attempt, notification.Title)
	}))
	defer receiver.Close()

	message := push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "order-7", UserID: "ada", Category: "orders", To: receiver.URL, Title: "On its way",
		CreatedAt: time.Now(),
	}}
	here := httpsend.GuardedConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, key := range []string{signing, "whsec_c29tZWJvZHkgZWxzZSdzIG93biBzZWNyZXQh"} {
		sender, err := webhook.New(webhook.Config{Secrets: []secret.Secret{secret.New(key)}, GuardedConfig: here})
		if err != nil {
			fmt.Println(err)
			return
		}
		if failure := push.Classify(sender.Send(context.Background(), message)); failure != nil {
			fmt.Println(failure)
		}
		_ = sender.Close()
	}
	// Output:
	// order-7, attempt 1: On its way
	// not from pacer
	// transient (400)
}
