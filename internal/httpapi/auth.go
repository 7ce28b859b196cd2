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
