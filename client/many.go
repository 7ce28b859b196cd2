package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/pacer-notify/pacer/internal/plural"
)

// The bounds of one request of [Client.EnqueueMany], as the API has them.
const (
	maxItems = 10_000
	maxBytes = 16<<20 - 1 // earlier servers refuse a body of exactly 16 MiB
	// maxWaits is how many items may have a MaxWait: of each, the API has to know when it would go.
	maxWaits = 1000
)

// EnqueueMany sends many notifications, in as few requests as the API allows, and returns one result for each,
// in order. Refused notifications do not affect the others.
//
// Before the first request it identifies the notifications in the caller's slice: those with neither an id nor
// an idempotency key have an id afterwards. With an error, it returns the results of the requests before. Some
// of the other notifications may have been accepted too. Call again with notifications[len(results):] of the
// same slice, and no notification is accepted twice.
func (c *Client) EnqueueMany(ctx context.Context, notifications []Notification) ([]Result, error) {
	for i := range notifications {
		if err := notifications[i].Identify(); err != nil {
			return nil, err
		}
	}
	results := make([]Result, 0, len(notifications))
	for len(results) < len(notifications) {
		b := batchOf(notifications[len(results):])
		if len(b.items) > 0 {
			if err := c.send(ctx, b); err != nil {
				return results, fmt.Errorf("enqueue %s: %w",
					plural.Of(len(b.items), "notification", "notifications"), err)
			}
		}
		for i := range b.results {
			b.results[i].Index = len(results) + i
		}
		results = append(results, b.results...)
	}
	return results, nil
}

// send sends a batch, and fills in its results.
func (c *Client) send(ctx context.Context, b *batch) error {
	bodies := make([]json.RawMessage, len(b.items))
	for i := range b.items {
		bodies[i] = b.items[i].body
	}
	var response struct {
		Results []Result `json:"results"`
	}
	if err := c.call(ctx, http.MethodPost, "/v1/notifications/bulk", bodies, &response); err != nil {
		return err
	}
	if len(response.Results) != len(b.items) {
		return fmt.Errorf("the server returned %d results", len(response.Results))
	}
	for i := range b.items {
		b.results[b.items[i].index] = response.Results[i]
	}
	return nil
}

// batch is what one request holds of some notifications, from the first on.
type batch struct {
	// results has one for each notification: those that can't be sent are refused already. items are the
	// others.
	results []Result
	items   []item
}

// item is an encoded notification of a batch, and the index of its result.
type item struct {
	index int
	body  json.RawMessage
}

// batchOf encodes as many of the notifications as one request may hold.
func batchOf(notifications []Notification) *batch {
	b, size, waits := &batch{}, len("[]"), 0
	for i := range notifications {
		body, err := encode(notifications[i])
		if alone := len("[]") + len(body); err == nil && alone > maxBytes {
			err = fmt.Errorf("it takes a request of %d bytes, and one may have %d", alone, maxBytes)
		}
		if err != nil {
			b.refuse(err)
			continue
		}
		if size += len(body) + len(","); len(b.items) == maxItems || len(b.items) > 0 && size > maxBytes {
			break
		}
		if notifications[i].MaxWait != "" {
			if waits++; waits > maxWaits {
				break
			}
		}
		b.items = append(b.items, item{i, body})
		b.results = append(b.results, Result{})
	}
	return b
}

// refuse makes the next result one of a notification that can't be sent.
func (b *batch) refuse(err error) {
	refused := Result{Error: err.Error()}
	if e, ok := errors.AsType[*Error](err); ok {
		refused.Error = e.Detail
	}
	b.results = append(b.results, refused)
}
