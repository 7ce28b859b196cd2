package app

import (
	"net/http"
	"net/netip"

	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// apiGuard limits the requests of each token, over all processes of the deployment; without limits it is nothing.
func (a *App) apiGuard() (func(http.Handler) http.Handler, error) {
	if len(a.cfg.APILimits)+len(a.cfg.APIRouteLimits) == 0 {
		return nil, nil //nolint:nilnil // no limits: no guard, no fault
	}
	guard := &throttle.Middleware{
		Limiter: throttle.NewRedis(a.redis.pipe, func(string) string { return "pacer:{api}:" }),
		Key:     caller, Route: httpapi.RouteOf, Log: a.log,
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

// caller is whose request it is: the token's that it was let in with, or without tokens the address's. What a header
// says that nobody checked makes no caller: anybody could make up as many as he likes.
func caller(r *http.Request) string {
	if token := httpapi.TokenOf(r); token != "" {
		return token
	}
	return addressOf(r.RemoteAddr)
}

// addressOf is an address as callers are told apart by it: of IPv6 the network of 64 bits, which is what one customer
// of a provider has at least.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
