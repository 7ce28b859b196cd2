package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/client"
)

// holding is a server at which the idempotency key "held" is held by an earlier request for some time.
type holding struct {
	until time.Time
	lose  time.Duration // how long the first request takes, whose response is lost; 0 for none
	sent  [][]string    // the keys of each batch
}

// RoundTrip implements [http.RoundTripper].
func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	if lose := h.lose; lose > 0 {
		h.lose = 0
		<-time.After(lose) // the bubble's time
		return nil, errors.New("connection reset by peer")
	}
	busy, w := time.Now().Before(h.until), httptest.NewRecorder()
	if !strings.HasSuffix(r.URL.Path, "/bulk") {
		if busy {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"type":"in-progress","detail":"is being accepted"}`) // the client reads it
			return w.Result(), nil
		}
		accept(1, w)
		return w.Result(), nil
	}
	var items []client.Notification
	if err := json.NewDecoder(r.Body).Decode(&items); err != nil {
		return nil, err
	}
	results, keys := make([]client.Result, len(items)), make([]string, len(items))
	for i, n := range items {
		keys[i] = n.IdempotencyKey
		results[i] = client.Result{Index: i, ID: "of-" + n.IdempotencyKey}
		if busy && n.IdempotencyKey == "held" {
			results[i] = client.Result{Index: i, Type: "in-progress", Error: "is just being accepted"}
		}
	}
	h.sent = append(h.sent, keys)
	err := json.NewEncoder(w).Encode(map[string]any{"results": results})
	return w.Result(), err
}

// An earlier request may hold an idempotency key, and it may be this one, whose response was lost. Until the
// key is free, which takes 10 s at most, nobody knows whether the notification was accepted: it is sent again,
// not refused.
func TestWhatIsBeingAcceptedIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held     time.Duration
		lose     time.Duration
		attempts int // 0 for the default
		refused  bool
	}{
		"UntilTheKeyIsFree":        {held: 10 * time.Second},
		"AfterAResponseLostLately": {held: 29 * time.Second, lose: 20 * time.Second},
		"NotForEver":               {held: time.Hour, refused: true},
		"NotWithASingleAttempt":    {held: time.Second, attempts: 1, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &holding{until: time.Now().Add(c.held), lose: c.lose}
				pacer := newClientOver(t, h, c.attempts)
				_, err := pacer.Enqueue(t.Context(), client.Notification{UserID: "ada", IdempotencyKey: "held"})
				refused, isRefused := errors.AsType[*client.Error](err)
				if isRefused != c.refused || err != nil && refused.Type != "in-progress" {
					t.Errorf("%v, want it refused: %t", err, c.refused)
				}
			})
		})
		t.Run("Many"+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &holding{until: time.Now().Add(c.held), lose: c.lose}
				results, err := newClientOver(t, h, c.attempts).EnqueueMany(t.Context(), []client.Notification{
					{UserID: "ada", IdempotencyKey: "a"},
					{UserID: "ada", IdempotencyKey: "held"},
					{UserID: "ada", Title: "\xff"},
					{UserID: "ada", IdempotencyKey: "b"},
				})
				if err != nil || len(results) != 4 || results[0].ID != "of-a" || results[3].ID != "of-b" ||
					results[2].Err() == nil {
					t.Fatalf("%+v, %v", results, err)
				}
				held := results[1]
				if held.Index != 1 || (held.Type == "in-progress") != c.refused ||
					(held.ID == "of-held") == c.refused {
					t.Errorf("%+v, want it refused: %t", held, c.refused)
				}
				if len(h.sent) > 30 || !slices.Equal(h.sent[0], []string{"a", "held", "b"}) {
					t.Errorf("sent %v", h.sent)
				}
				for _, keys := range h.sent[1:] { // the others have their results
					if !slices.Equal(keys, []string{"held"}) {
						t.Errorf("sent %v again", keys)
					}
				}
			})
		})
	}
}

// A caller that waits no longer is told so, while a key is held.
func TestTheCallersEndIsTheEndOfWaitingForAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		h := &holding{until: time.Now().Add(time.Hour)}
		many := []client.Notification{{UserID: "ada", IdempotencyKey: "held"}}
		results, err := newClientOver(t, h, 0).EnqueueMany(ctx, many)
		if len(results) > 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", results, err)
		}
	})
}
