// Package ops serves the people who run pacer. It has the dashboard, health checks, metrics and profiles, and it
// explains why a notification waits. It listens on an address of its own, apart from the API.
package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/secret"
)

// Config of the ops pages.
type Config struct {
	// Ready reports whether this process can do the work of its roles.
	Ready func(context.Context) Readiness
	// Desk looks up notifications and users.
	Desk Desk
	// Many finds notifications, and changes many at once.
	Many *desk.Many
	// Channels lists the configured channels with their health in this process.
	Channels func() []Channel
	// Policy says which policy this process has in force, PolicyContent what it says.
	Policy        func() Policy
	PolicyContent func() PolicyContent
	// DiffPolicy reports what another policy would change.
	DiffPolicy func(ctx context.Context, text []byte) (*desk.PolicyDiff, error)
	// ForcePolicy has every process take a version of the policy whatever waits.
	ForcePolicy func(ctx context.Context, version string) error
	// Live reads the deployment for everybody who watches the dashboard.
	Live *Live
	// Actions change the deployment. A request needs one of Tokens for them; without any it must come to a loopback
	// address.
	Actions Actions
	Tokens  *secret.Tokens
	// Host reports whether the pages are served under the Host of a request. A request with a token is served under any
	// host. Defaults to every host.
	Host func(string) bool
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	Log     *slog.Logger
}

// Channel is one that is configured, and the hosts that it calls. Paused says who paused it, and when; nil when nobody
// did.
type Channel struct {
	Channel string         `json:"channel"`
	Paused  *control.Pause `json:"paused,omitempty"`
	Hosts   []push.Host    `json:"hosts"`
}

func (h *handler) health(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") }

func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	readiness := h.cfg.Ready(ctx)
	status := http.StatusOK
	if readiness.Reason != "" {
		status = http.StatusServiceUnavailable
	}
	plain(w, status, strings.Join(append([]string{cmp.Or(readiness.Reason, "ready")}, readiness.Stores...), "\n"))
}

// plain responds with a line of text.
func plain(w http.ResponseWriter, status int, text string) {
	http.Error(w, text, status)
}

// channels lists the channels as all processes see them; as this one does, when the others cannot be asked.
func (h *handler) channels(w http.ResponseWriter, r *http.Request) {
	if latest, err := h.cfg.Live.Latest(r.Context()); err == nil {
		h.writeJSON(w, r, latest.Channels)
		return
	}
	h.writeJSON(w, r, h.cfg.Channels())
}

func (h *handler) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	plain(w, http.StatusServiceUnavailable, h.excuse(w, r, err))
}

// excuse logs why a store can't be read, and says as much of it as everybody may know.
func (h *handler) excuse(w http.ResponseWriter, r *http.Request, err error) string {
	h.cfg.Log.WarnContext(r.Context(), "could not serve an ops page", "path", r.Pattern, "error", err)
	w.Header().Set("Retry-After", "2")
	away := h.away(r.Context(), err)
	switch {
	case away.words() != "":
		return away.words()
	case errors.Is(err, context.DeadlineExceeded):
		return "the store takes too long to respond: see the dashboard for what is slow or locked"
	}
	return unreadable
}

// away names the stores that do not respond or are slow, after something could not be read.
func (h *handler) away(ctx context.Context, err error) *Away {
	if away, ok := errors.AsType[*Away](err); ok {
		return away
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	readiness := h.cfg.Ready(ctx)
	return &Away{Stores: readiness.Away, Slow: readiness.Slow}
}

func (h *handler) writeJSON(w http.ResponseWriter, r *http.Request, body any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(body); err != nil {
		h.cfg.Log.DebugContext(r.Context(), "could not write an ops page", "error", err)
	}
}
