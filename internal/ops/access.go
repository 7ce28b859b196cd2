package ops

import (
	"net"
	"net/http"
	"strings"

	"github.com/pacer-notify/pacer/internal/desk"
)

// underOwnName serves a request only when its host is the listener's or it has the token. So another site that points
// its name at this listener gets nothing.
func (h *handler) underOwnName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.cfg.Host != nil && !h.cfg.Host(r.Host) && !h.withToken(r) {
			plain(w, http.StatusMisdirectedRequest,
				"the ops pages are not served under this host name; add it to --allowed-hosts (PACER_ALLOWED_HOSTS)")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowed passes on the actions of those who may act. Where a token is set, they need it. Where none is, they must come
// to a loopback address, and not from another site's page.
func (h *handler) allowed(next http.HandlerFunc) http.Handler {
	own := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch refused := h.refusal(r); refused {
		case 0:
			own.ServeHTTP(w, r)
		case http.StatusUnauthorized:
			unauthorized(w)
		default:
			plain(w, refused, "actions work only on a loopback address, or with --ops-token")
		}
	})
}

// refusal is the status for those who may neither act nor read contents; 0 for those who may.
func (h *handler) refusal(r *http.Request) int {
	switch {
	case h.cfg.Tokens.Any() && !h.withToken(r):
		return http.StatusUnauthorized
	case !h.cfg.Tokens.Any() && !loopback(r):
		return http.StatusForbidden
	}
	return 0
}

// withhold takes the contents away from somebody who did not ask for them, or may not read them: they are for those who
// may act. Where a token is set, it says so even on this machine, which others may use too.
func (h *handler) withhold(r *http.Request, e *desk.Explanation) *desk.Explanation {
	if e == nil || e.Contents == nil {
		return e
	}
	shown := *e
	switch refused := h.refusal(r); {
	case !r.URL.Query().Has("contents") && !r.URL.Query().Has("q"):
		shown.Contents = nil
	case refused == http.StatusUnauthorized:
		shown.Contents, shown.Withheld = nil, needsToken
	case refused != 0:
		shown.Contents, shown.Withheld = nil, "contents are shown only on a loopback address, or with --ops-token"
	}
	return &shown
}

// profile shows profiles only to those who are on this machine or have the token: a profile costs time and shows how
// the process works.
func (h *handler) profile(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case loopback(r) || h.withToken(r):
			next(w, r)
		case h.cfg.Tokens.Any():
			unauthorized(w)
		default:
			plain(w, http.StatusForbidden, "profiles are shown only on a loopback address, or with --ops-token")
		}
	})
}

// withToken reports whether a request has the token. Where no token is set, no request has it.
func (h *handler) withToken(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && h.cfg.Tokens.Has(given)
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	plain(w, http.StatusUnauthorized, needsToken)
}

const needsToken = "this needs the ops token (--ops-token, PACER_OPS_TOKEN)"

// loopback reports whether a request came to a loopback address, under a name of this machine. Another name may belong
// to a web page that had it point here.
func loopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	host, _, err := net.SplitHostPort(local.String())
	if err != nil || !net.ParseIP(host).IsLoopback() {
		return false
	}
	name := r.Host
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	return name == "localhost" || net.ParseIP(strings.Trim(name, "[]")).IsLoopback()
}
