package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// asker is what is known of a request once it has been let in.
type asker struct {
	token string // the hash of the token that it came with, in hex; empty without
	route string // the pattern that it matched; empty for none
}

// askerKey is where the context of a request holds its [asker].
type askerKey struct{}

func askerOf(r *http.Request) asker {
	found, _ := r.Context().Value(askerKey{}).(asker)
	return found
}

func (a asker) put(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), askerKey{}, a))
}

// TokenOf gives a [Config.Guard] the hash of the token that a request was let in with, however its header is written;
// empty where there are no tokens.
func TokenOf(r *http.Request) string { return askerOf(r).token }

// RouteOf gives a [Config.Guard] the method and path pattern of the operation that a request asks for, however its path
// is written; empty for one that there is none for.
func RouteOf(r *http.Request) string { return askerOf(r).route }

// withRoute finds out which operation is asked for.
func withRoute(operations *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := askerOf(r)
		_, found.route = operations.Handler(r)
		next.ServeHTTP(w, found.put(r))
	})
}

// authenticate asks for one of the tokens, if there are any. Tokens are compared by their hashes, in constant time.
func (a *api) authenticate(next http.Handler) http.Handler {
	if len(a.cfg.Tokens) == 0 {
		return next
	}
	known := make([][sha256.Size]byte, len(a.cfg.Tokens))
	for i, token := range a.cfg.Tokens {
		known[i] = sha256.Sum256([]byte(token))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		given := sha256.Sum256([]byte(strings.TrimSpace(token)))
		match := 0
		for i := range known {
			match |= subtle.ConstantTimeCompare(given[:], known[i][:])
		}
		if match != 1 || !strings.EqualFold(scheme, "Bearer") {
			w.Header().Set("WWW-Authenticate", `Bearer realm="pacer"`)
			writeProblem(w, http.StatusUnauthorized, "a valid bearer token is required")
			return
		}
		next.ServeHTTP(w, asker{token: hex.EncodeToString(given[:16])}.put(r))
	})
}

// apartFromPages keeps web pages of other sites away from an API without tokens, which whoever reaches it may use:
// those whose name was made to point here, by the Host that they ask for, and those that send from elsewhere, by the
// origin that their browser tells.
func (a *api) apartFromPages(next http.Handler) http.Handler {
	if len(a.cfg.Tokens) > 0 {
		return next
	}
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusForbidden, "an API without tokens takes nothing from another site's page")
	}))
	protected := own.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.cfg.Host != nil && !a.cfg.Host(r.Host) {
			writeProblem(w, http.StatusMisdirectedRequest,
				"an API without tokens answers under this machine's names and those of --allowed-hosts only")
			return
		}
		protected.ServeHTTP(w, r)
	})
}
