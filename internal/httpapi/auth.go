package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// origin is what is known of a request: at first its route, once it has been authenticated also its token.
type origin struct {
	token string // the hash of its token, in hex; empty without a token
	route string // the pattern that it matches; empty for none
}

// originKey is where the context of a request holds its [origin].
type originKey struct{}

func originOf(r *http.Request) origin {
	found, _ := r.Context().Value(originKey{}).(origin)
	return found
}

func (o origin) put(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), originKey{}, o))
}

// TokenOf gives a [Config.CallerLimit] the hash of a request's token, however the header is written. It is empty where
// there are no tokens.
func TokenOf(r *http.Request) string { return originOf(r).token }

// RouteOf gives a [Config.CallerLimit] the method and path pattern of the operation that a request asks for, however
// the path is written. It is empty when there is no such operation.
func RouteOf(r *http.Request) string { return originOf(r).route }

// withRoute notes which operation a request asks for.
func withRoute(operations *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := originOf(r)
		_, found.route = operations.Handler(r)
		next.ServeHTTP(w, found.put(r))
	})
}

// authenticate demands one of the tokens, if there are any.
func (a *api) authenticate(next http.Handler) http.Handler {
	if !a.cfg.Tokens.Any() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		token = strings.TrimSpace(token)
		if !a.cfg.Tokens.Has(token) || !strings.EqualFold(scheme, "Bearer") {
			w.Header().Set("WWW-Authenticate", `Bearer realm="pacer"`)
			writeProblem(w, http.StatusUnauthorized, "a valid bearer token is required")
			return
		}
		found := originOf(r)
		given := sha256.Sum256([]byte(token))
		found.token = hex.EncodeToString(given[:16])
		next.ServeHTTP(w, found.put(r))
	})
}

// apartFromPages keeps other sites' pages away from an API without tokens, which everybody who reaches it may use. A
// page whose name was made to point here shows itself by the Host that it asks for. A page that sends from elsewhere
// shows itself by the origin that its browser reports.
func (a *api) apartFromPages(next http.Handler) http.Handler {
	if a.cfg.Tokens.Any() {
		return next
	}
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusForbidden, "without tokens, the API refuses requests from other sites' pages")
	}))
	protected := own.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.cfg.Host != nil && !a.cfg.Host(r.Host) {
			writeProblem(w, http.StatusMisdirectedRequest,
				"without tokens, the API is served only under this machine's names and those in --allowed-hosts (PACER_ALLOWED_HOSTS)")
			return
		}
		protected.ServeHTTP(w, r)
	})
}
