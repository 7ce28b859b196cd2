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
type guarded struct {
	http.Handler
	now time.Time
}

func newGuarded(t testing.TB, limiter throttle.Limiter) *guarded {
	t.Helper()
	g := &guarded{now: time.Unix(1_800_000_000, 300_000_000)}
	if limiter == nil {
		limiter = throttle.NewMemory(func() time.Time { return g.now })
	}
	m := &throttle.Middleware{
		Limiter: limiter, Key: func(r *http.Request) string { return r.Header.Get("Authorization") },
		PerKey:   []throttle.Rule{{Max: 5, Per: time.Minute}, {Max: 2, Per: time.Second}},
		PerRoute: []throttle.Rule{{Max: 1, Per: 10 * time.Second}},
		Log:      slog.New(slog.DiscardHandler),
	}
	handler, err := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	if err != nil {
		t.Fatalf("wrap: %v", err)
	}
	g.Handler = handler
	return g
}

func (g *guarded) get(key, path string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody)
	request.Header.Set("Authorization", key)
	answer := httptest.NewRecorder()
	g.ServeHTTP(answer, request)
	return answer
}

func TestMiddlewareTellsHowLongToWaitAndIsRight(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	if answer := g.get("ada", "/login"); answer.Code != http.StatusNoContent {
		t.Fatalf("the first: %d", answer.Code)
	}
	answer := g.get("ada", "/login")
	if answer.Code != http.StatusTooManyRequests || answer.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("the second on the route: %d %s", answer.Code, answer.Body)
	}
	wait, err := strconv.Atoi(answer.Header().Get("Retry-After"))
	if err != nil || wait != 10 {
		t.Fatalf("Retry-After %q, want 10", answer.Header().Get("Retry-After"))
	}
	if answer := g.get("ben", "/login"); answer.Code != http.StatusNoContent {
		t.Errorf("another key is refused: %d", answer.Code)
	}
	g.now = g.now.Add(time.Duration(wait) * time.Second)
	if answer := g.get("ada", "/login"); answer.Code != http.StatusNoContent {
		t.Errorf("after the wait: %d", answer.Code)
	}
}

// A request that the route's limit refuses must not use up the key's: one login a second shuts nobody out of the rest.
func TestMiddlewareChargesAllOrNone(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
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
		if answer := g.get("ada", "/page"+strconv.Itoa(i)); answer.Code != http.StatusNoContent {
			t.Errorf("page %d: %d %s", i, answer.Code, answer.Body)
		}
		g.now = g.now.Add(time.Second)
	}
	if answer := g.get("ada", "/page9"); answer.Code != http.StatusTooManyRequests {
		t.Errorf("the sixth within the key's minute: %d", answer.Code)
	}
}

func TestMiddlewareAnnouncesWhatIsLeft(t *testing.T) {
	t.Parallel()
	answer := newGuarded(t, nil).get("ada", "/")
	for field, want := range map[string][]string{
		"Ratelimit-Policy": {`"rule1";q=1;w=10`, `"rule2";q=5;w=60`, `"rule3";q=2;w=1`},
		"Ratelimit":        {`"rule1";r=0;t=10`, `"rule2";r=4;t=60`, `"rule3";r=1;t=1`},
	} {
		if got := answer.Header().Values(field); fmt.Sprint(got) != fmt.Sprint(want) {
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
	if answer := newGuarded(t, away{}).get("ada", "/"); answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("with its store away: %d, Retry-After %q", answer.Code, answer.Header().Get("Retry-After"))
	}
}

func TestMiddlewareRefusesLimitsThatAreNone(t *testing.T) {
	t.Parallel()
	m := &throttle.Middleware{Limiter: throttle.NewMemory(nil), PerKey: []throttle.Rule{{Max: 0, Per: time.Second}}}
	if _, err := m.Wrap(http.NotFoundHandler()); err == nil {
		t.Error("a limit of 0 is taken")
	}
}

func ExampleMemory() {
	now := time.Unix(1_800_000_000, 0)
	limiter := throttle.NewMemory(func() time.Time { return now })
	plan := throttle.Plan{Rules: []throttle.Rule{{Max: 2, Per: time.Minute}, {Max: 1, Per: 3 * time.Second, Kind: throttle.KindGap}}}
	for i := range 3 {
		d, err := limiter.Allow(context.Background(), throttle.Key{User: "ada", Category: "chat"}, plan, strconv.Itoa(i))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Wait())
		now = now.Add(2 * time.Second)
	}
	// Output:
	// true 0s
	// false 1s
	// true 0s
}
