package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/client"
)

// pacer stands for a running one, so that the examples can be run. lose is how many batches it accepts before the
// connection to it breaks once.
type pacer struct {
	lose    int
	lookups int
}

// ServeHTTP implements [http.Handler].
func (p *pacer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	respond := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	switch {
	case r.Method == http.MethodDelete:
		respond(http.StatusConflict, map[string]string{
			"title": "Conflict", "detail": "order-7 is delivered: only a notification that waits can be cancelled",
		})
	case r.URL.Path == "/v1/users/ada/throttle":
		respond(http.StatusOK, client.Window{
			Reason: "limit 1/1m", TimeLeftMS: 42_000, Deferred: 3, Rules: []client.Rule{{Max: 1, Per: "1m", Used: 1}},
		})
	case r.Method == http.MethodGet:
		p.lookups++
		status := []string{"deferred", "sending", "delivered"}[min(p.lookups, 3)-1]
		respond(http.StatusOK, client.View{Notification: client.Notification{ID: "order-7"}, Status: status})
	case r.URL.Path == "/v1/notifications/bulk":
		p.bulk(w, r)
	default:
		respond(http.StatusAccepted, client.View{Notification: client.Notification{ID: "order-7"}, Status: "queued"})
	}
}

// bulk accepts a batch, except what is in no category of the policy.
func (p *pacer) bulk(w http.ResponseWriter, r *http.Request) {
	if p.lose > 0 {
		if p.lose--; p.lose == 0 {
			panic(http.ErrAbortHandler) // the connection breaks, and nobody knows what was accepted
		}
	}
	var batch []client.Notification
	_ = json.NewDecoder(r.Body).Decode(&batch)
	results := make([]client.Result, len(batch))
	for i, n := range batch {
		results[i] = client.Result{Index: i, ID: n.ID}
		if n.Category == "unheard of" {
			results[i] = client.Result{
				Index: i, Error: `category: "chatt" is not named in the policy; it names chat, default`,
			}
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
}

// Send one notification. The same id twice is one notification, so it is safe to call again.
func ExampleClient_Enqueue() {
	server := httptest.NewServer(&pacer{})
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL, Token: os.Getenv("PACER_TOKEN")})
	if err != nil {
		fmt.Println(err)
		return
	}
	accepted, err := c.Enqueue(context.Background(), client.Notification{
		ID: "order-7", UserID: "ada", Category: "orders", To: "https://example.com/hook",
		Title: "Your order is on its way",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(accepted.ID, accepted.Status)
	// Output: order-7 queued
}

// Send many notifications. Refused ones do not affect the others.
func ExampleClient_EnqueueMany() {
	server := httptest.NewServer(&pacer{})
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := c.EnqueueMany(context.Background(), []client.Notification{
		{ID: "order-7", UserID: "ada"},
		{ID: "order-8", UserID: "ben", Category: "unheard of"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range results {
		if r.Error != "" {
			fmt.Println(r.Index, "refused:", r.Error)
		} else {
			fmt.Println(r.Index, "accepted as", r.ID)
		}
	}
	// Output:
	// 0 accepted as order-7
	// 1 refused: category: "chatt" is not named in the policy; it names chat, default
}

// After an error, call again with the notifications that have no result yet. They have ids by now, so none is accepted
// twice.
func ExampleClient_EnqueueMany_again() {
	server := httptest.NewServer(&pacer{lose: 2})
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL, Attempts: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	notifications := make([]client.Notification, 12_000) // two requests
	for i := range notifications {
		notifications[i].UserID = fmt.Sprintf("user-%d", i)
	}
	ctx := context.Background()
	results, err := c.EnqueueMany(ctx, notifications)
	for tries := 0; err != nil && tries < 5; tries++ {
		fmt.Println("have", len(results), "results, call again for", len(notifications)-len(results))
		var more []client.Result
		more, err = c.EnqueueMany(ctx, notifications[len(results):])
		results = append(results, more...)
	}
	fmt.Println(len(results), "accepted")
	// Output:
	// have 10000 results, call again for 2000
	// 12000 accepted
}

// Wait until a notification has ended.
func ExampleClient_Get() {
	server := httptest.NewServer(&pacer{})
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		n, err := c.Get(context.Background(), "order-7")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n.Status)
		switch n.Status {
		case "delivered", "failed", "expired", "cancelled", "replaced":
			return
		}
		<-time.After(10 * time.Millisecond) // in real life: seconds, or until n.DeliverAt
	}
	// Output:
	// deferred
	// sending
	// delivered
}

// Ask how long the next notification of a user would wait. This changes nothing.
func ExampleClient_Throttle() {
	server := httptest.NewServer(&pacer{})
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	window, err := c.Throttle(context.Background(), "ada", "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	if !window.Allowed {
		wait := time.Duration(window.TimeLeftMS) * time.Millisecond
		fmt.Printf("%s: %d wait, the next slot comes in %s\n", window.Reason, window.Deferred, wait)
	}
	// Output: limit 1/1m: 3 wait, the next slot comes in 42s
}

// Cancel a notification that still waits.
func ExampleClient_Cancel() {
	server := httptest.NewServer(&pacer{})
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Cancel(context.Background(), "order-7")
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusConflict {
		fmt.Println("too late:", refused.Detail)
	}
	// Output: too late: order-7 is delivered: only a notification that waits can be cancelled
}

// Give a notification an id before the first call. Then a program can call again after an error.
func ExampleNotification_Identify() {
	named := client.Notification{ID: "order-7", UserID: "ada"}
	keyed := client.Notification{IdempotencyKey: "7/shipped", UserID: "ada"}
	bare := client.Notification{UserID: "ada"}
	for _, n := range []*client.Notification{&named, &keyed, &bare} {
		if err := n.Identify(); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("%q, %q, and a new id of %d characters\n", named.ID, keyed.ID, len(bare.ID))
	// Output: "order-7", "", and a new id of 36 characters
}

// ledger stands for a transaction in pacer's database.
type ledger struct{ id string }

// QueryRow implements [client.Tx].
func (l *ledger) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	fmt.Println(sql)
	var n client.Notification
	if body, ok := args[0].([]byte); ok && json.Unmarshal(body, &n) == nil {
		l.id = n.ID
	}
	return l
}

// Scan implements [pgx.Row].
func (l *ledger) Scan(into ...any) error {
	if id, ok := into[0].(*string); ok {
		*id = l.id
	}
	return nil
}

// Write an order and its notification together, or neither. In a program, placeOrder runs in pgx.BeginFunc, whose
// transaction is tx.
func ExampleEnqueueTx() {
	placeOrder := func(ctx context.Context, tx client.Tx) error {
		// tx.Exec(ctx, "INSERT INTO orders (id) VALUES (7)")
		id, err := client.EnqueueTx(ctx, tx, client.Notification{
			ID: "order-7", UserID: "ada", To: "https://example.com/hook",
		})
		if err != nil {
			return err // the transaction is rolled back
		}
		fmt.Println(id, "is accepted once the transaction commits")
		return nil
	}
	if err := placeOrder(context.Background(), &ledger{}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// SELECT coalesce(id, ''), repeated, faults, differs FROM pacer.try_enqueue($1)
	// order-7 is accepted once the transaction commits
}
