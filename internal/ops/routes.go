package ops

import (
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type handler struct{ cfg Config }

// Handler serves the ops pages.
func Handler(cfg Config) http.Handler {
	h := &handler{cfg}
	mux := http.NewServeMux()
	for pattern, page := range h.routes() {
		mux.Handle(pattern, page)
	}
	return h.underOwnName(mux)
}

// routes are all pages.
func (h *handler) routes() map[string]http.Handler {
	routes := map[string]http.Handler{
		"POST /actions": h.allowed(h.act), "POST /bulk": h.allowed(many{h}.bulk),
		"POST /policy/diff":      h.allowed(h.diffPolicy),
		"POST /policy.html":      h.allowed(h.comparePolicy),
		"POST /policy/force":     h.allowed(h.forcePolicy),
		"POST /bulk/{id}/cancel": h.allowed(many{h}.stopJob),
		"GET /metrics": promhttp.HandlerFor(h.cfg.Metrics,
			promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}),
	}
	files, names := files()
	for _, name := range names {
		routes["GET /"+name] = files
	}
	for pattern, serve := range map[string]http.HandlerFunc{
		"GET /{$}": h.now, "GET /list.html": many{h}.listPage, "GET /policy.html": h.policyPage,
		"GET /snapshot": h.snapshot, "GET /events": h.events, "GET /audit": h.auditLog, "GET /healthz": h.health,
		"GET /readyz":       h.ready,
		"GET /explain/{id}": h.explain, "GET /user/{user}": h.user,
		"GET /channels": h.channels, "GET /policy": h.policy, "GET /notifications": many{h}.list,
		"GET /bulk": many{h}.jobs, "GET /history": many{h}.history, "GET /bulk/{id}": many{h}.job,
	} {
		routes[pattern] = serve
	}
	// The index links to a page cmdline, which does not exist here: a command line may hold tokens.
	for pattern, serve := range map[string]http.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol": pprof.Symbol,
		"GET /debug/pprof/trace":  pprof.Trace,
	} {
		routes[pattern] = h.profile(serve)
	}
	return routes
}
