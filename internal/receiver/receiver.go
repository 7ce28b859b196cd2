// Package receiver is a webhook target for trials: it reports what arrives and how long after the one before, verifies
// signatures, and fails or is slow when told to. It is what `dispatcher receive` and the demo show.
package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// maxBody is how much of a request is read: more than a webhook's content may have, escaped.
	maxBody = 2 << 20
	// maxSenders is how many users and paths are remembered for the gaps; then all are forgotten.
	maxSenders = 100_000
)

// Signature is what a request's signature is worth.
type Signature string

// The signatures.
const (
	Unsigned   Signature = "unsigned"
	Valid      Signature = "valid"
	Invalid    Signature = "invalid"
	NotChecked Signature = "not checked" // signed, and the receiver knows no secret
)

// Arrival is one request.
type Arrival struct {
	At       time.Time `json:"at"`
	ID       string    `json:"id"`
	UserID   string    `json:"user_id"`
	Category string    `json:"category"`
	Title    string    `json:"title"`
	// Path is the request's, such as /phone.
	Path string `json:"path"`
	// Attempt is which attempt it is, from 1; 0 when the sender does not tell.
	Attempt int `json:"attempt"`
	// Gap is how long before the last one of the same user came to the same path; nil for the first.
	Gap       *time.Duration `json:"-"`
	Signature Signature      `json:"signature"`
	// Status is what it is responded with.
	Status int `json:"status"`
	// Fault says why it is no notification.
	Fault string `json:"fault,omitempty"`
}

// MarshalJSON writes the gap in seconds.
func (a Arrival) MarshalJSON() ([]byte, error) {
	type plain Arrival
	var seconds *float64
	if a.Gap != nil {
		seconds = new(a.Gap.Round(time.Millisecond).Seconds())
	}
	return json.Marshal(struct {
		plain
		Gap *float64 `json:"gap_seconds"`
	}{plain(a), seconds})
}

// Config of a Receiver.
type Config struct {
	// Secrets verify signatures, each whsec_…; one that fits is enough. Defaults to none: nothing is verified.
	Secrets []string
	// Fail says which requests fail. Defaults to none.
	Fail Failure
	// Slow is how long each response takes. Defaults to no time.
	Slow time.Duration
	// By reports which arrivals the gap is between. Defaults to those of a user at a path.
	By func(*Arrival) string
	// Arrived is told each arrival before it is responded to, one after the other.
	Arrived func(Arrival)
}

// Receiver is a webhook target.
type Receiver struct {
	cfg       Config
	verifiers []*standardwebhooks.Webhook

	mu      sync.Mutex
	last    map[string]time.Time // by what Config.By tells
	summary Summary
}

// Summary counts what arrived.
type Summary struct {
	Received int // requests
	Failed   int // of them, responded to with a failure as told
	Invalid  int // of them, with a signature that no secret made
	Faulty   int // of them, no notifications
}

// New makes a receiver.
func New(cfg Config) (*Receiver, error) {
	if cfg.By == nil {
		cfg.By = func(a *Arrival) string { return a.UserID + "\x00" + a.Path }
	}
	r := &Receiver{cfg: cfg, last: map[string]time.Time{}}
	for _, secret := range cfg.Secrets {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil || !strings.HasPrefix(secret, "whsec_") {
			return nil, errors.New("must be whsec_ and base64") // the cause may quote it
		}
		r.verifiers = append(r.verifiers, verifier)
	}
	return r, nil
}

// Summary counts what arrived until now.
func (r *Receiver) Summary() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.summary
}

// ServeHTTP implements [http.Handler].
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this is a webhook target: pacer sends notifications here with POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		http.Error(w, "the body can't be read", http.StatusBadRequest)
		return
	}
	arrival := read(request, body)
	arrival.Signature = r.verify(request.Header, body)
	r.note(&arrival)
	if !wait(request.Context(), r.cfg.Slow) {
		panic(http.ErrAbortHandler) // the sender is gone, or this ends: no response, since none would be 200
	}
	w.WriteHeader(arrival.Status)
}

// read takes what a request says of its notification.
func read(request *http.Request, body []byte) Arrival {
	a := Arrival{At: time.Now(), Path: request.URL.Path, Status: http.StatusNoContent}
	if err := json.Unmarshal(body, &struct {
		ID       *string `json:"id"`
		UserID   *string `json:"user_id"`
		Category *string `json:"category"`
		Title    *string `json:"title"`
	}{&a.ID, &a.UserID, &a.Category, &a.Title}); err != nil {
		a.Fault, a.Status = "not a notification: "+err.Error(), http.StatusBadRequest
	}
	if a.ID == "" {
		a.ID = request.Header.Get("Webhook-Id")
	}
	a.Attempt, _ = strconv.Atoi(request.Header.Get("Pacer-Attempt")) // 0: the sender does not tell
	return a
}

// note completes an arrival with what depends on those before it, and tells it.
func (r *Receiver) note(a *Arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Received++
	switch {
	case a.Fault != "":
		r.summary.Faulty++
	case r.cfg.Fail.fails(r.summary.Received):
		a.Status = r.cfg.Fail.Status
		r.summary.Failed++
	}
	if a.Signature == Invalid {
		r.summary.Invalid++
	}
	by := r.cfg.By(a)
	if before, ok := r.last[by]; ok {
		a.Gap = new(a.At.Sub(before))
	}
	if len(r.last) >= maxSenders {
		clear(r.last)
	}
	r.last[by] = a.At
	if r.cfg.Arrived != nil {
		r.cfg.Arrived(*a)
	}
}

// verify checks the signature of Standard Webhooks.
func (r *Receiver) verify(header http.Header, body []byte) Signature {
	switch {
	case header.Get("Webhook-Signature") == "":
		return Unsigned
	case len(r.verifiers) == 0:
		return NotChecked
	}
	for _, verifier := range r.verifiers {
		if verifier.Verify(body, header) == nil {
			return Valid
		}
	}
	return Invalid
}

// wait waits, and tells false when the context ends before.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Failure says which requests fail, and how.
type Failure struct {
	// Status is the response. 0: none fails.
	Status int
	// First is how many fail from the first on. Defaults to all, unless Percent is set.
	First int
	// Percent is the share that fails, evenly spread. Defaults to all, unless First is set.
	Percent int
}

// ParseFailure reads 503 (all fail), 503:3 (the first three) or 503:20% (every fifth).
func ParseFailure(text string) (Failure, error) {
	if text == "" {
		return Failure{}, nil
	}
	status, part, hasPart := strings.Cut(text, ":")
	var f Failure
	var err error
	if f.Status, err = strconv.Atoi(status); err != nil || f.Status < 300 || f.Status > 599 {
		return Failure{}, fmt.Errorf("must begin with a status from 300 to 599, such as 503; is %q", text)
	}
	if !hasPart {
		return f, nil
	}
	share, isShare := strings.CutSuffix(part, "%")
	n, err := strconv.Atoi(share)
	switch {
	case err != nil || n < 1 || isShare && n > 100:
		return Failure{}, fmt.Errorf("must be a status alone, with how many (503:3) or with a share (503:20%%); is %q", text)
	case isShare:
		f.Percent = n
	default:
		f.First = n
	}
	return f, nil
}

// fails reports whether the n-th request fails, from 1.
func (f Failure) fails(n int) bool {
	switch {
	case f.Status == 0:
		return false
	case f.Percent > 0:
		return n*f.Percent/100 > (n-1)*f.Percent/100
	case f.First > 0:
		return n <= f.First
	}
	return true
}
