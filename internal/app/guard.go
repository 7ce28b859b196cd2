package app

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"strings"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// apiGuard limits the requests of each token, over all processes of the deployment; without limits it is nothing.
func (a *App) apiGuard() (func(http.Handler) http.Handler, error) {
	if len(a.cfg.APILimits)+len(a.cfg.APIRouteLimits) == 0 {
		return nil, nil //nolint:nilnil // no limits: no guard, no fault
	}
	guard := &throttle.Middleware{
		Limiter: throttle.NewRedis(a.store.pipe, func(string) string { return "pacer:{api}:" }),
		Key:     caller, Route: route, Log: a.log,
		PerKey: rulesOf(a.cfg.APILimits), PerRoute: rulesOf(a.cfg.APIRouteLimits),
	}
	if _, err := guard.Wrap(http.NotFoundHandler()); err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		wrapped, err := guard.Wrap(next)
		if err != nil { // checked above: the limits are what they were
			return http.NotFoundHandler()
		}
		return wrapped
	}, nil
}

func rulesOf(limits []settings.RequestLimit) []throttle.Rule {
	var rules []throttle.Rule
	for _, l := range limits {
		rules = append(rules, throttle.Rule{Max: l.Max, Per: l.Per})
	}
	return rules
}

// caller is whose request it is: the token's, as a hash, or without one the address's. The token has been checked before.
func caller(r *http.Request) string {
	if token := r.Header.Get("Authorization"); token != "" {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:16])
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// route is the method and path of a request without the names in it, which anybody could make up without end.
func route(r *http.Request) string {
	segments := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i, segment := range segments {
		if i >= 2 && segment != "bulk" && segment != "throttle" && segment != "preferences" && segment != "devices" {
			segments[i] = "*"
		}
	}
	return r.Method + " " + strings.Join(segments[:min(len(segments), 4)], "/")
}
