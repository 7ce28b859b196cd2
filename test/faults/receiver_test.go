//go:build faults

package faults_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// delivery is one request that the receiver got.
type delivery struct {
	// key is the name that the producer gave to the notification: its title. An id may be the server's.
	key, user string
	// device is the path of the target: of a user's several ones.
	device   string
	attempt  int
	admitted throttle.Micros
	arrived  time.Time
	// accepted reports whether the receiver responded with success.
	accepted bool
	// refused reports whether it surely reached nobody, so that it counts in no window.
	refused bool
}

// behaviour responds in place of the receiver and returns the status that it sent.
type behaviour func(w http.ResponseWriter, r *http.Request, d delivery) int

// receiver is the webhook target. It outlives every process, and keeps a ledger.
type receiver struct {
	server *httptest.Server
	delay  time.Duration

	mu     sync.Mutex
	behave behaviour
	got    []delivery
}

func newReceiver(t *testing.T, delay time.Duration) *receiver {
	t.Helper()
	r := &receiver{delay: delay}
	r.server = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(func() {
		r.server.CloseClientConnections() // those that a fault left hanging
		r.server.Close()
	})
	return r
}

// behaves changes how the receiver responds from now on; nil is success.
func (r *receiver) behaves(b behaviour) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behave = b
}

func (r *receiver) take(w http.ResponseWriter, request *http.Request) {
	d := delivery{arrived: time.Now()}
	var body struct {
		Title  string `json:"title"`
		UserID string `json:"user_id"`
	}
	if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	d.key, d.user, d.device = body.Title, body.UserID, request.URL.Path
	d.attempt, _ = strconv.Atoi(request.Header.Get("Pacer-Attempt"))
	admitted, _ := strconv.ParseInt(request.Header.Get("Pacer-Admitted-At"), 10, 64)
	d.admitted = throttle.Micros(admitted)
	r.mu.Lock()
	behave := r.behave
	at := len(r.got)
	d.accepted = behave == nil // told at once: a process may die while it waits for the response
	r.got = append(r.got, d)
	r.mu.Unlock()
	if behave != nil {
		status := behave(w, request, d)
		r.mu.Lock()
		r.got[at].accepted = status >= 200 && status < 300
		r.got[at].refused = status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
		r.mu.Unlock()
		return
	}
	if r.delay > 0 {
		<-time.After(r.delay)
	}
}

// deliveries are all requests so far.
func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// count is how many different notifications were accepted.
func (r *receiver) count() int {
	seen := map[string]bool{}
	for _, d := range r.deliveries() {
		if d.accepted {
			seen[d.key] = true
		}
	}
	return len(seen)
}
