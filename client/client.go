// Package client sends notifications to pacer from Go programs. A [Client] uses the HTTP API. [EnqueueTx] enqueues
// within a transaction of the program's own, where pacer's store is in a Postgres that the program also writes to.
//
// The client repeats calls over HTTP when that can help, and repeating is always safe: a notification with neither an
// id nor an idempotency key gets an id before the first try, and the same id twice is one notification. Your program
// can repeat a call as safely if its notification has an id: see [Notification.Identify].
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Config of a Client.
type Config struct {
	// Server is the address of the API. Defaults to http://127.0.0.1:8080.
	Server string
	// Token is sent as the bearer token. Defaults to none.
	Token string
	// HTTPClient makes the requests. Defaults to one without redirects.
	HTTPClient *http.Client
	// Attempts is how often a call is tried in all. Defaults to 5.
	Attempts int
	// MinBackoff and MaxBackoff bound the wait between two tries. The wait is random, below a bound that begins at
	// MinBackoff and doubles with each try up to MaxBackoff. Default to 100 ms and 10 s. The client waits for as long
	// as the server's Retry-After says, up to MaxBackoff.
	MinBackoff, MaxBackoff time.Duration
	// Timeout bounds one try. Defaults to 10 s.
	Timeout time.Duration
}

// Validate reports all settings that can't work.
func (c Config) Validate() error {
	var faults []error
	if server, err := url.Parse(c.Server); err != nil || c.Server != "" &&
		(server.Host == "" || server.Scheme != "http" && server.Scheme != "https") {
		faults = append(faults, errors.New("server must be of the form http://host:port"))
	}
	if c.Attempts < 0 || c.MinBackoff < 0 || c.MaxBackoff < 0 || c.Timeout < 0 {
		faults = append(faults, errors.New("attempts and times must not be negative"))
	}
	return errors.Join(faults...)
}

// Client calls the API. It is safe for concurrent use.
type Client struct {
	cfg Config
}

// New makes a Client. It fails on what [Config.Validate] refuses.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("set up the client of pacer: %w", err)
	}
	cfg.Server = strings.TrimSuffix(cmp.Or(cfg.Server, "http://127.0.0.1:8080"), "/")
	cfg.Attempts = cmp.Or(cfg.Attempts, 5)
	cfg.MinBackoff = cmp.Or(cfg.MinBackoff, 100*time.Millisecond)
	cfg.MaxBackoff = max(cfg.MinBackoff, cmp.Or(cfg.MaxBackoff, 10*time.Second))
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Client{cfg}, nil
}

// Enqueue sends a notification to be accepted, and returns it as it was accepted. An [*Error] says why it was refused.
// After any other error it may have been accepted all the same. To be able to call again after that, give the
// notification an id or an idempotency key first, or call [Notification.Identify].
func (c *Client) Enqueue(ctx context.Context, n Notification) (*View, error) {
	if err := n.Identify(); err != nil {
		return nil, err
	}
	body, err := encode(n)
	if err != nil {
		return nil, fmt.Errorf("enqueue a notification: %w", err)
	}
	var accepted View
	if err := c.call(ctx, http.MethodPost, "/v1/notifications", json.RawMessage(body), &accepted); err != nil {
		return nil, fmt.Errorf("enqueue a notification: %w", err)
	}
	return &accepted, nil
}

// Get looks up a notification. An [*Error] with status 404 says that there is no such notification.
func (c *Client) Get(ctx context.Context, id string) (*View, error) {
	var view View
	if err := c.call(ctx, http.MethodGet, "/v1/notifications/"+segment(id), nil, &view); err != nil {
		return nil, fmt.Errorf("look up notification %s: %w", id, err)
	}
	return &view, nil
}

// Cancel cancels a waiting notification. An [*Error] with status 409 says that it is being delivered or has ended.
func (c *Client) Cancel(ctx context.Context, id string) (*View, error) {
	var view View
	tries, err := c.callCounting(ctx, http.MethodDelete, "/v1/notifications/"+segment(id), nil, &view)
	refused, ok := errors.AsType[*Error](err)
	if ok && refused.Status == http.StatusConflict && tries > 1 {
		return c.cancelledBefore(ctx, id, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cancel notification %s: %w", id, err)
	}
	return &view, nil
}

// cancelledBefore returns a notification that was too late to cancel at a later try, if it is cancelled: an
// earlier try did it, and its response was lost.
func (c *Client) cancelledBefore(ctx context.Context, id string, tooLate error) (*View, error) {
	view, err := c.Get(ctx, id)
	switch {
	case err != nil: // it may be cancelled, so it is not called too late
		return nil, fmt.Errorf("cancel notification %s: %w", id, err)
	case view.Status != "cancelled":
		return nil, fmt.Errorf("cancel notification %s: %w", id, tooLate)
	}
	return view, nil
}

// CancelGroup cancels what waits of a user with a group key, and returns how many it cancelled. What is being delivered
// goes on.
func (c *Client) CancelGroup(ctx context.Context, userID, groupKey string) (int, error) {
	var result struct{ Cancelled int }
	query := url.Values{"user": {userID}, "group_key": {groupKey}}
	if err := c.call(ctx, http.MethodDelete, "/v1/notifications?"+query.Encode(), nil, &result); err != nil {
		return 0, fmt.Errorf("cancel the notifications of a group: %w", err)
	}
	return result.Cancelled, nil
}

// Change changes a waiting notification. An [*Error] with status 409 says that it is being delivered or has ended. That
// may be so because an earlier try, whose response was lost, has changed it.
func (c *Client) Change(ctx context.Context, id string, change Change) (*View, error) {
	var view View
	if err := c.call(ctx, http.MethodPatch, "/v1/notifications/"+segment(id), change.fields(), &view); err != nil {
		return nil, fmt.Errorf("change notification %s: %w", id, err)
	}
	return &view, nil
}

// Release lets a waiting notification go at once, whatever limits and quiet hours say. Its errors are those of
// [Client.Change].
func (c *Client) Release(ctx context.Context, id string) (*View, error) {
	var view View
	path := "/v1/notifications/" + segment(id) + "/release"
	if err := c.call(ctx, http.MethodPost, path, nil, &view); err != nil {
		return nil, fmt.Errorf("release notification %s: %w", id, err)
	}
	return &view, nil
}

// Throttle reports where a user stands with the limits of a category. It changes nothing.
func (c *Client) Throttle(ctx context.Context, userID, category string) (*Window, error) {
	var window Window
	path := "/v1/users/" + segment(userID) + "/throttle?category=" + url.QueryEscape(category)
	if err := c.call(ctx, http.MethodGet, path, nil, &window); err != nil {
		return nil, fmt.Errorf("ask the throttle of category %s: %w", category, err)
	}
	return &window, nil
}

// segment writes an id into a path. Dots alone would lead to another path.
func segment(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// call makes a request until it is accepted, refused, or tried often enough. It decodes the response into result.
func (c *Client) call(ctx context.Context, method, path string, body, result any) error {
	_, err := c.callCounting(ctx, method, path, body, result)
	return err
}

// callCounting is call, and returns how often it tried.
func (c *Client) callCounting(ctx context.Context, method, path string, body, result any) (tries int, err error) {
	var encoded []byte
	if body != nil {
		if encoded, err = json.Marshal(body); err != nil {
			return 0, fmt.Errorf("encode the request: %w", err)
		}
	}
	for tries = 1; ; tries++ {
		wait, err := c.try(ctx, method, path, encoded, result)
		if err == nil {
			return tries, nil
		}
		if wait == never || tries == c.cfg.Attempts {
			return tries, err
		}
		if ended := pause(ctx, max(wait, c.backoff(tries))); ended != nil {
			return tries, errors.Join(ended, err)
		}
	}
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff is a random wait below the bound of the attempt.
func (c *Client) backoff(attempt int) time.Duration {
	bound := c.cfg.MinBackoff << min(attempt-1, 20)
	if bound <= 0 || bound > c.cfg.MaxBackoff {
		bound = c.cfg.MaxBackoff
	}
	return rand.N(bound + 1) //nolint:gosec // nobody gains by guessing a wait
}

// never says that another try can't help.
const never = -1

// try makes a request once. With an error it returns the shortest wait before the next try, or [never].
func (c *Client) try(ctx context.Context, method, path string, body []byte,
	result any,
) (wait time.Duration, err error) {
	within, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(within, method, c.cfg.Server+path, bytes.NewReader(body))
	if err != nil {
		return never, fmt.Errorf("make the request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	response, err := c.cfg.HTTPClient.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return never, ctx.Err()
		}
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // it has been read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return 0, fmt.Errorf("read the response: %w", err)
	}
	return c.read(response, text, result)
}

// read decodes the text of a response into result. With an error it returns the shortest wait before the next try, or
// [never].
func (c *Client) read(response *http.Response, text []byte, result any) (wait time.Duration, err error) {
	if len(text) > maxResponse {
		return never, fmt.Errorf("the response is longer than %d bytes", maxResponse)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		refused := parseError(response.StatusCode, text)
		if refused.temporary() {
			return c.retryAfter(response), refused
		}
		return never, refused
	}
	if err := json.Unmarshal(text, result); err != nil {
		return never, fmt.Errorf("read the response: %w", err)
	}
	return 0, nil
}

// maxResponse is how long a response may be, in bytes: as long as the results of the largest batch, and no other is
// longer. The longest refusal that the API has for an item, where 10,000 share maxBytes, takes less than half of 4 KiB.
const maxResponse = maxItems * 4 << 10

// retryAfter is how long the server asks to wait, up to the longest back-off.
func (c *Client) retryAfter(r *http.Response) time.Duration {
	text := r.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return min(max(0, time.Duration(seconds)*time.Second), c.cfg.MaxBackoff)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(at)), c.cfg.MaxBackoff)
	}
	return 0
}

// Identify gives a notification that has neither an id nor an idempotency key a new id, so that it can be enqueued
// again after an error and is still one notification.
func (n *Notification) Identify() error {
	if n.ID != "" || n.IdempotencyKey != "" {
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	n.ID = id.String()
	return nil
}
