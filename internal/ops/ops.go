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

	"github.com/pacer-notify/pacer/internal/notification"
)

// Config of the ops pages.
type Config struct {
	// Ready tells whether this process can do the work of its roles.
	Ready func(context.Context) Readiness
	// Explain tells what has become of a notification; User what is known of a user's categories.
	Explain func(ctx context.Context, id string) (*notification.View, error)
	User    func(ctx context.Context, userID string) ([]UserCategory, error)
	// Channels lists the configured channels with their health in this process.
	Channels func() []Channel
	// Live reads the deployment for everybody who watches the dashboard.
	Live *Live
	// Actions change the deployment. A request needs Token for them; without a Token it must come to a loopback
	// address.
	Actions Actions
	Token   string
	// Host tells whether the pages are served under the Host of a request. A request with Token is served under any
	// host. Defaults to every host.
	Host func(string) bool
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	Log     *slog.Logger
}

// UserCategory is what is known of a user in one category: how far the rules are used, and what waits.
type UserCategory struct {
	Category      string      `json:"category"`
	Allowed       bool        `json:"allowed"`
	NextAllowedAt time.Time   `json:"next_allowed_at"`
	Reason        string      `json:"reason,omitempty"`
	Waiting       int         `json:"waiting"`
	Deferred      int         `json:"deferred"`
	Rules         []Rule      `json:"rules"`
	Admitted      []time.Time `json:"admitted,omitempty"`
	Backlog       []Waiting   `json:"backlog,omitempty"`
}

// Channel is one that is configured, and the hosts that it calls.
type Channel struct {
	Channel string `json:"channel"`
	Hosts   []Host `json:"hosts"`
}

// Host is where a channel's calls go, by name; "" where the channel has only one provider. It is what one process sees,
// or in a [Snapshot] what all processes see together.
type Host struct {
	Host      string `json:"host,omitempty"`
	Breaker   string `json:"breaker"`
	InFlight  int    `json:"in_flight"`
	PausedFor string `json:"paused_for,omitempty"`
	// Outcome is what became of the latest call, OutcomeAt when.
	Outcome   string    `json:"outcome,omitempty"`
	OutcomeAt time.Time `json:"outcome_at,omitzero"`
}

// Rule is how far one rule is used.
type Rule struct {
	Rule      string    `json:"rule"`
	Used      int       `json:"used"`
	Remaining int       `json:"remaining"`
	FreesAt   time.Time `json:"frees_at,omitzero"`
}

// Waiting is a notification that waits: when it is expected to be sent, and how many of the user's go before it.
type Waiting struct {
	ID        string    `json:"id"`
	DeliverAt time.Time `json:"deliver_at,omitzero"`
	Ahead     int       `json:"ahead,omitempty"`
}

// Explanation is a notification's life as the explain page shows it.
type Explanation struct {
	ID        string              `json:"id"`
	UserID    string              `json:"user_id"`
	Category  string              `json:"category"`
	Channel   string              `json:"channel"`
	Priority  string              `json:"priority"`
	Status    notification.Status `json:"status"`
	Attempts  int                 `json:"attempts"`
	Deferrals int                 `json:"deferrals"`
	Reason    string              `json:"reason,omitempty"`
	DeliverAt time.Time           `json:"deliver_at,omitzero"`
	Ahead     int                 `json:"ahead,omitempty"`
	Timeline  []Step              `json:"timeline"`
}

// Step is one entry of a timeline.
type Step struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Detail string    `json:"detail,omitempty"`
	Reply  string    `json:"reply,omitempty"`
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

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // an error means that the client is gone
}

func (h *handler) explain(w http.ResponseWriter, r *http.Request) {
	e, err := h.explanation(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, notification.ErrNotFound):
		plain(w, http.StatusNotFound, err.Error())
	case err != nil:
		h.unavailable(w, r, err)
	default:
		h.writeJSON(w, r, e)
	}
}

func (h *handler) explanation(ctx context.Context, id string) (*Explanation, error) {
	view, err := h.cfg.Explain(ctx, id)
	if err != nil {
		return nil, err
	}
	e := &Explanation{
		ID: view.ID, UserID: view.UserID, Category: view.Category, Channel: string(view.Channel),
		Priority: view.Priority.String(),
		Status:   view.Status, Attempts: view.Attempts, Deferrals: view.Deferrals, Reason: view.Reason,
		DeliverAt: view.DeliverAt, Ahead: view.Ahead,
		Timeline: []Step{},
	}
	for _, event := range view.Timeline {
		e.Timeline = append(e.Timeline, Step(event))
	}
	return e, nil
}

func (h *handler) user(w http.ResponseWriter, r *http.Request) {
	categories, err := h.categoriesOf(r.Context(), r.PathValue("user"))
	if err != nil {
		h.unavailable(w, r, err)
		return
	}
	h.writeJSON(w, r, categories)
}

// categoriesOf tells where a user stands in each category. In JSON its lists are never null.
func (h *handler) categoriesOf(ctx context.Context, userID string) ([]UserCategory, error) {
	categories, err := h.cfg.User(ctx, userID)
	if categories == nil {
		categories = []UserCategory{}
	}
	for i := range categories {
		if categories[i].Rules == nil {
			categories[i].Rules = []Rule{}
		}
	}
	return categories, err
}

// Found is the result of a search: the notification with that id, or else the categories of the user with that id.
type Found struct {
	Notification *Explanation   `json:"notification,omitempty"`
	Categories   []UserCategory `json:"categories,omitempty"`
}

// lookup searches. It never responds with 404, which browsers report as an error.
func (h *handler) lookup(w http.ResponseWriter, r *http.Request) {
	query := r.PathValue("query")
	var found Found
	var err error
	if found.Notification, err = h.explanation(r.Context(), query); errors.Is(err, notification.ErrNotFound) {
		found.Categories, err = h.categoriesOf(r.Context(), query)
	}
	if err != nil {
		h.unavailable(w, r, err)
		return
	}
	h.writeJSON(w, r, found)
}

func (h *handler) channels(w http.ResponseWriter, r *http.Request) {
	channels := h.cfg.Channels()
	for i := range channels {
		if channels[i].Hosts == nil {
			channels[i].Hosts = []Host{}
		}
	}
	h.writeJSON(w, r, channels)
}

func (h *handler) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	h.cfg.Log.WarnContext(r.Context(), "could not serve an ops page", "path", r.Pattern, "error", err)
	w.Header().Set("Retry-After", "2")
	plain(w, http.StatusServiceUnavailable, "the store can't be read now")
}

func (h *handler) writeJSON(w http.ResponseWriter, r *http.Request, body any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(body); err != nil {
		h.cfg.Log.DebugContext(r.Context(), "write an ops page", "error", err)
	}
}
