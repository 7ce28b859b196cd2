package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

const (
	// people is how many users get something. A few of them get most of it, as in life.
	people = 3000
	// loadEvery lies between two batches; perBatch is their size on the average.
	loadEvery = 500 * time.Millisecond
	perBatch  = 20
	// swell is how long the traffic takes to rise and fall.
	swell = 2 * time.Minute
	// outOfOrder is the share of deliveries that the receiver refuses with 503.
	outOfOrder = 0.01
)

// notice is a notification as the API takes it.
type notice struct {
	UserID   string `json:"user_id"`
	Category string `json:"category"`
	Channel  string `json:"channel"`
	To       string `json:"to"`
	Title    string `json:"title"`
	SendAt   string `json:"send_at,omitempty"`
}

// receive starts a webhook target that takes a moment for each, and now and then is out of order. It gives its URL.
func receive(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for webhooks: %w", err)
	}
	target := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(respondSlowly)}
	go func() { _ = target.Serve(listener) }() // ends when it is closed
	context.AfterFunc(ctx, func() { _ = target.Close() })
	return "http://" + listener.Addr().String() + "/", nil
}

// respondSlowly responds after a while, and now and then with 503.
func respondSlowly(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(time.Duration(5+rand.IntN(40)) * time.Millisecond): //nolint:gosec // chance for a picture
	case <-r.Context().Done():
	}
	if rand.Float64() < outOfOrder { //nolint:gosec // likewise
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// load gives notifications to the API until ctx ends.
func load(ctx context.Context, api, target string) error {
	ticker := time.NewTicker(loadEvery)
	defer ticker.Stop()
	for start := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		rising := 1 + 0.7*math.Sin(2*math.Pi*time.Since(start).Seconds()/swell.Seconds())
		if err := send(ctx, api, batch(int(perBatch*rising), target)); err != nil {
			return err
		}
	}
}

// batch makes notifications of every kind.
func batch(n int, target string) []notice {
	notices := make([]notice, n)
	for i := range notices {
		// A power of chance brings the first users most.
		user := int(people * math.Pow(rand.Float64(), 1.6)) //nolint:gosec // chance for a picture
		made := notice{UserID: fmt.Sprintf("user-%04d", user), Channel: "webhook", To: target, Title: "hello"}
		switch kind := rand.IntN(100); { //nolint:gosec // likewise
		case kind < 45:
			made.Category = "chat"
		case kind < 75:
			made.Category = "orders"
		case kind < 85:
			made.Category = "newsletter"
		case kind < 90:
			made.Category = "security"
		case kind < 95:
			made.Category, made.SendAt = "orders", time.Now().Add(2*time.Minute).UTC().Format(time.RFC3339)
		default:
			made.Category = "default"
		}
		notices[i] = made
	}
	return notices
}

// send gives a batch to the API.
func send(ctx context.Context, api string, notices []notice) error {
	body, err := json.Marshal(notices)
	if err != nil {
		return fmt.Errorf("encode notifications: %w", err)
	}
	url := api + "/v1/notifications/bulk?results=errors"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("hand notifications over: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil || response.StatusCode != http.StatusOK || bytes.Contains(said, []byte(`"error"`)) {
		return fmt.Errorf("notifications are refused: %s, %s, %w", response.Status, said, err)
	}
	return nil
}
