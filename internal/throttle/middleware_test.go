package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// guarded is a handler behind the middleware on a clock that stands still until it is moved.
type limitedAPI struct {
	http.Handler
	now time.Time
}

func newAPI(t testing.TB, limiter throttle.Limiter) *limitedAPI {
	t.Helper()
	a := &limitedAPI{now: time.Unix(1_800_000_000, 300_000_000)}
	if limiter == nil {
		limiter = throttle.NewMemory(func() time.Time { return a.now })
	}
	m := &throttle.Middleware{
		Limiter: limiter, Key: func(r *http.Request) string { return r.Header.Get("Authorization") },
		PerKey:   []throttle.Rule{{Max: 5, Per: time.Minute}, {Max: 2, Per: time.Second}},
		PerRoute: []throttle.Rule{{Max: 1, Per: 10 * time.Second}},
		Log:      slog.New(slog.DiscardHandler),
	}
	handler, err := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	if err != nil {
		t.Fatalf("wrap: %v", err)
	}
	a.Handler = handler
	return a
}

func (a *limitedAPI) get(key, path string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody)
	request.Header.Set("Authorization", key)
	response := httptest.NewRecorder()
	a.ServeHTTP(response, request)
	return response
}

func TestMiddlewareTellsHowLongToWaitAndIsRight(t *testing.T) {
	t.Parallel()
	g := newAPI(t, nil)
	if response := g.get("ada", "/login"); response.Code != http.StatusNoContent {
		t.Fatalf("the first: %d", response.Code)
	}
	response := g.get("ada", "/login")
	contentType := response.Header().Get("Content-Type")
	if response.Code != http.StatusTooManyRequests || contentType != "application/problem+json" {
		t.Fatalf("the second on the route: %d %s", response.Code, response.Body)
	}
	wait, err := strconv.Atoi(response.Header().Get("Retry-After"))
	if err != nil || wait != 10 {
		t.Fatalf("Retry-After %q, want 10", response.Header().Get("Retry-After"))
	}
	if response := g.get("ben", "/login"); response.Code != http.StatusNoContent {
		t.Errorf("another key is refused: %d", response.Code)
	}
	g.now = g.now.Add(time.Duration(wait) * time.Second)
	if response := g.get("ada", "/login"); response.Code != http.StatusNoContent {
		t.Errorf("after the wait: %d", response.Code)
	}
}

// A request that the route's limit refuses must not use up the key's: one login a second shuts nobody out of the rest.
func TestMiddlewareChargesAllOrNone(t *testing.T) {
	t.Parallel()
	g := newAPI(t, nil)
	refused := 0
	for range 60 {
		if g.get("ada", "/login").Code == http.StatusTooManyRequests {
			refused++
		}
		g.now = g.now.Add(100 * time.Millisecond)
	}
	if refused != 59 {
		t.Fatalf("%d refused, want 59", refused)
	}
	for i := range 4 {
		if response := g.get("ada", "/page"+strconv.Itoa(i)); response.Code != http.StatusNoContent {
			t.Errorf("page %d: %d %s", i, response.Code, response.Body)
		}
		g.now = g.now.Add(time.Second)
	}
	if response := g.get("ada", "/page9"); response.Code != http.StatusTooManyRequests {
		t.Errorf("the sixth within the key's minute: %d", response.Code)
	}
}

func TestMiddlewareAnnouncesWhatIsLeft(t *testing.T) {
	t.Parallel()
	response := newAPI(t, nil).get("ada", "/")
	for field, want := range map[string][]string{
		"Ratelimit-Policy": {`"rule1";q=1;w=10`, `"rule2";q=5;w=60`, `"rule3";q=2;w=1`},
		"Ratelimit":        {`"rule1";r=0;t=10`, `"rule2";r=4;t=60`, `"rule3";r=1;t=1`},
	} {
		if got := response.Header().Values(field); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
}

// away is a limiter whose store can't be reached.
type away struct{ throttle.Limiter }

func (away) Spend(context.Context, throttle.Key, throttle.Plan, string) (throttle.Usage, error) {
	return throttle.Usage{}, errors.New("away")
}

func TestMiddlewareFailsClosed(t *testing.T) {
	t.Parallel()
	response := newAPI(t, away{}).get("ada", "/")
	if response.Code != http.StatusServiceUnavailable || response.Header().Get("Retry-After") == "" {
		t.Errorf("with its store away: %d, Retry-After %q", response.Code, response.Header().Get("Retry-After"))
	}
}

func TestMiddlewareRefusesInvalidLimits(t *testing.T) {
	t.Parallel()
	m := &throttle.Middleware{Limiter: throttle.NewMemory(nil), PerKey: []throttle.Rule{{Max: 0, Per: time.Second}}}
	if _, err := m.Wrap(http.NotFoundHandler()); err == nil {
		t.Error("a limit of 0 is taken")
	}
}
