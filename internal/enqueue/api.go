package enqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// API is the HTTP API as a producer sees it.
type API struct {
	// URL is its base, such as http://127.0.0.1:8080.
	URL string
	// Token is the bearer token. Defaults to none.
	Token string
	// Client makes the requests.
	Client *http.Client
	// Patience is how long a request is repeated while the API can't be reached, says that it is busy, or has
	// not read the request in time. Defaults to 10 s. There is none for an address where nothing listens before
	// the first response: it is wrong, or nothing was started.
	Patience time.Duration

	responded atomic.Bool
}

// UnreachableError says that the API did not respond as an API.
type UnreachableError struct {
	URL string
	Err error
}

// Error names the address, and what to do when nothing is there.
func (e *UnreachableError) Error() string {
	if e.nothingThere() {
		return fmt.Sprintf("nothing is listening at %s (%v): start a dispatcher there, or set --server (PACER_SERVER) to the address of one", e.URL, e.Err)
	}
	return fmt.Sprintf("pacer at %s can't be reached: %v", e.URL, e.Err)
}

// nothingThere tells that the address itself does not lead anywhere.
func (e *UnreachableError) nothingThere() bool {
	unknown, ok := errors.AsType[*net.DNSError](e.Err)
	return ok && unknown.IsNotFound || errors.Is(e.Err, syscall.ECONNREFUSED)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Response to a batch.
type Response struct {
	// Accepted are all that are with pacer now; Repeated are those of them that were before.
	Accepted int `json:"accepted"`
	Repeated int `json:"repeated"`
	Rejected int `json:"rejected"`
	// Results hold the refused items, and when asked for the accepted ones.
	Results []Result `json:"results"`
}

// Result is what became of one item of a batch.
type Result struct {
	Index int    `json:"index"`
	ID    string `json:"id"`
	Error string `json:"error"`
	// Type tells some refusals apart.
	Type string `json:"type"`
	Promise
}

// Promise says when an accepted item goes. It is empty unless that was asked for.
type Promise struct {
	Decision  string    `json:"decision"`
	DeliverAt time.Time `json:"deliver_at"`
	Estimate  bool      `json:"estimate"`
	Reason    string    `json:"reason"`
	Place     int       `json:"place"`
}

// String reads "deferred 2026-01-02T15:04:05Z place 3 limit 10/1m".
func (p Promise) String() string {
	if p.Decision == "" {
		return strings.TrimSpace("not going out " + p.Reason)
	}
	at := "at no known moment"
	if !p.DeliverAt.IsZero() {
		at = p.DeliverAt.UTC().Format(time.RFC3339Nano)
		if p.Estimate {
			at = "not before " + at
		}
	}
	if p.Place > 0 {
		at += fmt.Sprintf(" place %d", p.Place)
	}
	return strings.TrimSpace(p.Decision + " " + at + " " + p.Reason)
}

// Bulk hands over notifications, one JSON object a line. all asks for the results of accepted ones too, promise for
// their promises.
func (a *API) Bulk(ctx context.Context, lines []byte, all, promise bool) (Response, error) {
	path := "/v1/notifications/bulk?results=errors"
	switch {
	case promise:
		path = "/v1/notifications/bulk?promise=true"
	case all:
		path = "/v1/notifications/bulk"
	}
	body, err := a.post(ctx, path, "application/x-ndjson", lines)
	if err != nil {
		return Response{}, err
	}
	var response Response
	if err := json.Unmarshal(body, &response); err != nil {
		return Response{}, &UnreachableError{a.URL, fmt.Errorf("its response is not pacer's: %w", err)}
	}
	return response, nil
}

// problem is an RFC 9457 response.
type problem struct {
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// limitedError says that the API takes no more from this caller for now.
type limitedError struct {
	url, why string
	after    time.Duration
}

// Error says when it takes more.
func (e *limitedError) Error() string {
	return fmt.Sprintf("pacer at %s accepts nothing more for now: %s; it will again in %s", e.url, e.why, e.after)
}

// limitPatience is how long a request waits for the limits of the API in all.
const limitPatience = 5 * time.Minute

// post repeats a request, which must be safe to repeat, while the API is away or busy, or limits this caller.
func (a *API) post(ctx context.Context, path, contentType string, body []byte) ([]byte, error) {
	for until := time.Now().Add(limitPatience); ; {
		reply, err := a.postPatiently(ctx, path, contentType, body)
		limited, ok := errors.AsType[*limitedError](err)
		if !ok || time.Now().Add(limited.after).After(until) {
			return reply, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(limited.after):
		}
	}
}

// postPatiently repeats a request while the API is away or busy.
func (a *API) postPatiently(ctx context.Context, path, contentType string, body []byte) ([]byte, error) {
	patience := a.Patience
	if patience == 0 {
		patience = 10 * time.Second
	}
	schedule := backoff.NewExponentialBackOff()
	schedule.InitialInterval = 100 * time.Millisecond
	reply, err := backoff.Retry(ctx, func() ([]byte, error) { return a.postOnce(ctx, path, contentType, body) },
		backoff.WithBackOff(schedule), backoff.WithMaxElapsedTime(patience))
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok {
		return nil, permanent.Unwrap()
	}
	return reply, err
}

func (a *API) postOnce(ctx context.Context, path, contentType string, body []byte) ([]byte, error) {
	url := strings.TrimSuffix(a.URL, "/") + path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, backoff.Permanent(&UnreachableError{a.URL, err})
	}
	request.Header.Set("Content-Type", contentType)
	if a.Token != "" {
		request.Header.Set("Authorization", "Bearer "+a.Token)
	}
	response, err := a.Client.Do(request)
	if err != nil {
		away := &UnreachableError{a.URL, errors.Unwrap(err)}
		if away.nothingThere() && !a.responded.Load() {
			return nil, backoff.Permanent(away)
		}
		return nil, away
	}
	a.responded.Store(true)
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, 32<<20))
	if err != nil {
		return nil, &UnreachableError{a.URL, err}
	}
	switch {
	case response.StatusCode < http.StatusMultipleChoices:
		return reply, nil
	case response.StatusCode == http.StatusTooManyRequests && retryAfter(response) > 0:
		return nil, backoff.Permanent(&limitedError{a.URL, why(response, reply).Detail, retryAfter(response)})
	case response.StatusCode == http.StatusTooManyRequests, response.StatusCode == http.StatusRequestTimeout,
		response.StatusCode >= http.StatusInternalServerError:
		return nil, &UnreachableError{a.URL, errors.New(response.Status)}
	}
	p := why(response, reply)
	if response.StatusCode == http.StatusUnauthorized {
		p.Detail += ": give it in PACER_TOKEN, or as file:PATH with --token"
	}
	return nil, backoff.Permanent(fmt.Errorf("refused by %s: %s: %s", a.URL, p.Title, p.Detail))
}

// why reads what a response that refuses a request says.
func why(response *http.Response, reply []byte) (p problem) {
	if json.Unmarshal(reply, &p) != nil || p.Title == "" {
		p.Title, p.Detail = response.Status, "this is not pacer's API; name its address with --server (PACER_SERVER)"
	}
	return p
}

// retryAfter is how long a response asks to wait; 0 when it does not say.
func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
