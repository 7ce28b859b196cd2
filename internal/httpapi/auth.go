package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

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
		next.ServeHTTP(w, r)
	})
}

// apartFromPages keeps web pages of other sites away from an API without tokens, which whoever reaches it may use: those
// whose name was made to point here, by the Host that they ask for, and those that send from elsewhere, by the origin that
// their browser tells.
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
			writeProblem(w, http.StatusMisdirectedRequest, "an API without tokens answers under this machine's names and those of --allowed-hosts only")
			return
		}
		protected.ServeHTTP(w, r)
	})
}
