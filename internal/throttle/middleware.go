package throttle

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Middleware limits the requests to an HTTP API. A request over a limit gets status 429 with the wait, and does not
// count. A key has limits over all routes, and limits on each route. A request that one of them refuses counts under
// neither.
type Middleware struct {
	// Limiter counts the requests.
	Limiter Limiter
	// Key returns whose request it is, such as a hash of its token. An empty key is not limited.
	Key func(*http.Request) string
	// Route names the route of a request. Defaults to the request's method and path.
	Route func(*http.Request) string
	// PerKey are the limits of a key over all routes, PerRoute those of a key on each route.
	PerKey, PerRoute []Rule
	// Log gets a line when the limiter fails. Defaults to [slog.Default].
	Log *slog.Logger
}

// plan makes the route's limits those of a category, and the key's limits the cap over all categories.
func (m *Middleware) plan() Plan {
	plan := Plan{Rules: slices.Clone(m.PerRoute)}
	for _, r := range m.PerKey {
		r.Kind = KindCap
		plan.Rules = append(plan.Rules, r)
	}
	return plan
}

// Wrap puts the limits before a handler. It returns an error when they are not valid.
func (m *Middleware) Wrap(next http.Handler) (http.Handler, error) {
	plan := m.plan()
	if err := plan.Validate(); err != nil {
		return nil, fmt.Errorf("set up the limits of an API: %w", err)
	}
	log := m.Log
	if log == nil {
		log = slog.Default()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := m.Key(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		usage, err := m.Limiter.Spend(r.Context(), Key{User: key, Category: m.route(r)}, plan, rand.Text())
		if err != nil {
			// Without the limiter nothing passes: a limit that opens when its store is away protects nobody.
			log.ErrorContext(r.Context(), "could not reach the limiter of the API; refused the request", "error", err)
			w.Header().Set("Retry-After", "1")
			writeProblem(w, http.StatusServiceUnavailable, "the limiter can't be reached now; try again")
			return
		}
		announce(w.Header(), usage)
		if !usage.Allowed {
			w.Header().Set("Retry-After", strconv.FormatInt(seconds(usage.Wait()), 10))
			writeProblem(w, http.StatusTooManyRequests, "too many requests: "+plan.Rules[usage.Rule].String())
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

func (m *Middleware) route(r *http.Request) string {
	if m.Route != nil {
		return m.Route(r)
	}
	return r.Method + " " + r.URL.Path
}

// announce writes how much is left, in the fields of draft-ietf-httpapi-ratelimit-headers. RateLimit-Policy names every
// limit. RateLimit says what remains of each, and in how many seconds more becomes free.
func announce(header http.Header, usage Usage) {
	for i, u := range usage.Rules {
		name := strconv.Quote("rule" + strconv.Itoa(i+1))
		header.Add("RateLimit-Policy", fmt.Sprintf("%s;q=%d;w=%d", name, u.Rule.Max, seconds(u.Rule.Per)))
		frees := int64(0)
		if u.FreesAt > 0 {
			frees = seconds(u.FreesAt.Sub(usage.Now))
		}
		header.Add("RateLimit", fmt.Sprintf("%s;r=%d;t=%d", name, u.Remaining(), frees))
	}
}

// seconds rounds up to whole seconds, at least 1, so that a caller who waits that long has waited long enough.
func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

// writeProblem writes a response in the form of RFC 9457.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
	if err != nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone
}
