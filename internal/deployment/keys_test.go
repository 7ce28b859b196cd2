package deployment_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A channel's own schedule may retry for days. An idempotency key outlives it, or a repeat would be a second
// notification.
func TestAKeyOutlivesTheRetriesOfItsChannel(t *testing.T) {
	t.Parallel()
	d := attach(t, on(t, redistest.URL(t), 1))
	accepting := intake.New(intake.Config{Store: d.Store, Rules: d.Rules, Log: quiet})
	results, err := accepting.Accept(t.Context(), []intake.Request{{
		Notification: notification.Notification{
			UserID: "ada", Channel: notification.ChannelWebhook, To: "https://192.0.2.1/", Title: "hi",
		},
		IdempotencyKey: "key",
	}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	keys, err := d.Redis.Client.Keys(t.Context(), "pacer:{push-0}:k:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v; want one", keys, err)
	}
	life, err := d.Redis.Client.PTTL(t.Context(), keys[0]).Result()
	retries := d.Rules.Deliveries("default", notification.ChannelWebhook).Retry.Longest()
	if err != nil || life <= retries {
		t.Errorf("the key is kept for %s, %v; the retries take up to %s", life, err, retries)
	}
}
