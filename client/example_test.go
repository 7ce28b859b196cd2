package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/client"
)

// pacer stands for a running one, so that the examples can be run.
func pacer() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"title":"Conflict","detail":"already being delivered or ended"}`)
		case r.URL.Path == "/v1/notifications/bulk":
			_, _ = io.WriteString(w, `{"accepted":1,"rejected":1,"results":[{"index":0,"id":"order-7"},{"index":1,"error":"category: is not named in the policy"}]}`)
		default:
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"id":"order-7","status":"queued"}`)
		}
	}))
}

func ExampleClient_Enqueue() {
	server := pacer()
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL, Token: os.Getenv("PACER_TOKEN")})
	if err != nil {
		fmt.Println(err)
		return
	}
	accepted, err := c.Enqueue(context.Background(), client.Notification{
		ID: "order-7", UserID: "ada", Category: "orders", To: "https://example.com/hook", Title: "Your order is on its way",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(accepted.ID, accepted.Status)
	// Output: order-7 queued
}

func ExampleClient_EnqueueMany() {
	server := pacer()
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	notifications := []client.Notification{
		{ID: "order-7", UserID: "ada"},
		{ID: "order-8", UserID: "ben", Category: "unheard of"},
	}
	results, err := c.EnqueueMany(context.Background(), notifications)
	if err != nil {
		// Call again with notifications[len(results):]. All of them have ids by now, so none is accepted twice.
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
	// 1 refused: category: is not named in the policy
}

func ExampleClient_Cancel() {
	server := pacer()
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
	// Output: too late: already being delivered or ended
}

// An order and its notification are written together, or neither is.
func ExampleEnqueueTx() {
	ctx := context.Background()
	placeOrder := func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES (7)"); err != nil {
				return err
			}
			_, err := client.EnqueueTx(ctx, tx, client.Notification{ID: "order-7", UserID: "ada", To: "https://example.com/hook"})
			return err
		})
	}
	_ = placeOrder
}
