package httpapi

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// CallerLimit limits the requests of each caller, over all processes of the deployment; nil without limits. PerRoute
// holds for each route by itself.
func CallerLimit(limiter throttle.Limiter, perCaller, perRoute []throttle.Rule, log *slog.Logger) (
	func(http.Handler) http.Handler, error,
) {
	if len(perCaller)+len(perRoute) == 0 {
		return nil, nil //nolint:nilnil // no limits: no middleware, no fault
	}
	limit := &throttle.Middleware{
		Limiter: limiter, Key: caller, Route: RouteOf, Log: log, PerKey: perCaller, PerRoute: perRoute,
	}
	if _, err := limit.Wrap(http.NotFoundHandler()); err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		wrapped, err := limit.Wrap(next)
		if err != nil { // checked above: the limits are what they were
			return http.NotFoundHandler()
		}
		return wrapped
	}, nil
}

// caller is whose request it is: the token's that it was let in with, or without tokens the address's. What a header
// says that nobody checked makes no caller: anybody could make up as many callers as they like.
func caller(r *http.Request) string {
	if token := TokenOf(r); token != "" {
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
