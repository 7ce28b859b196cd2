package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/pacer-notify/pacer/client"
)

// cancelling is a server with one notification, whose first responses to cancelling are lost.
type cancelling struct {
	status string
	lost   int
	calls  string // the methods' first letters
}

// RoundTrip implements [http.RoundTripper].
func (s *cancelling) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls += r.Method[:1]
	w := httptest.NewRecorder()
	if r.Method == http.MethodDelete {
		if s.status == "deferred" {
			s.status = "cancelled"
		} else {
			w.WriteHeader(http.StatusConflict)
		}
		if s.lost > 0 {
			s.lost--
			return nil, errors.New("connection reset by peer")
		}
	}
	_, _ = io.WriteString(w, `{"id":"n1","status":"`+s.status+`"}`) // the client reads it
	return w.Result(), nil
}

// When a response was lost, the next try finds a notification that can't be cancelled any more: it may have
// been cancelled by the first. Only the notification itself tells.
func TestACancelWhoseResponseWasLostIsNotTooLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server cancelling
		late   bool
		calls  string
	}{
		"Cancelled":          {server: cancelling{status: "deferred"}, calls: "D"},
		"CancelledAndLost":   {server: cancelling{status: "deferred", lost: 2}, calls: "DDDG"},
		"DeliveredAndLost":   {server: cancelling{status: "delivered", lost: 1}, late: true, calls: "DDG"},
		"Delivered":          {server: cancelling{status: "delivered"}, late: true, calls: "D"},
		"CancelledByAnother": {server: cancelling{status: "cancelled"}, late: true, calls: "D"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				view, err := newClientOver(t, &c.server, 0).Cancel(t.Context(), "n1")
				refused, isRefused := errors.AsType[*client.Error](err)
				switch {
				case isRefused != c.late || isRefused && refused.Status != http.StatusConflict:
					t.Errorf("%v, want that it is too late: %t", err, c.late)
				case !c.late && (err != nil || view.ID != "n1" || view.Status != "cancelled"):
					t.Errorf("%+v, %v", view, err)
				}
				if c.server.calls != c.calls {
					t.Errorf("called %s, want %s", c.server.calls, c.calls)
				}
			})
		})
	}
}
