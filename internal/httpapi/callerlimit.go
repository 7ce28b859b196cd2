package httpapi

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// CallerLimit makes the middleware that limits the requests of each caller, over all processes of the deployment. The
// rules of perRoute hold for each route by itself. Without rules it returns nil.
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

// caller says who makes a request: the owner of its token or, where there are no tokens, its address. A header that
// nobody has checked makes no caller, or a client could make up any number of them.
func caller(r *http.Request) string {
	if token := TokenOf(r); token != "" {
		return token
	}
	return addressOf(r.RemoteAddr)
}

// addressOf is the part of an address that tells callers apart. For IPv6 that is the network of 64 bits: a provider's
// customer has at least that much.
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
