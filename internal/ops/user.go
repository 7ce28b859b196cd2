package ops

import (
	"context"
	"errors"
	"net/http"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Desk looks up notifications and users. A [notification.ErrNotFound] may say what else has the id.
type Desk interface {
	Explain(ctx context.Context, id string) (*desk.Explanation, error)
	User(ctx context.Context, userID string) (*desk.User, error)
	// LookUp looks for a notification, or else for a user.
	LookUp(ctx context.Context, id string) (desk.Found, error)
}

// explain serves GET /explain/{id}: a [desk.Explanation], with the contents for ?contents from those who may read them.
func (h *handler) explain(w http.ResponseWriter, r *http.Request) {
	e, err := h.cfg.Desk.Explain(r.Context(), r.PathValue("id"))
	h.writeFound(w, r, h.withhold(r, e), err)
}

func (h *handler) user(w http.ResponseWriter, r *http.Request) {
	u, err := h.cfg.Desk.User(r.Context(), r.PathValue("user"))
	h.writeFound(w, r, u, err)
}

// writeFound writes what was found, or why nothing was.
func (h *handler) writeFound(w http.ResponseWriter, r *http.Request, body any, err error) {
	other, isOther := errors.AsType[*desk.NotThisError](err)
	switch {
	case isOther:
		plain(w, http.StatusNotFound, other.Error())
	case errors.Is(err, notification.ErrNotFound):
		plain(w, http.StatusNotFound, noSuch(r.PathValue("id")))
	case err != nil:
		h.unavailable(w, r, err)
	default:
		w.Header().Set("Cache-Control", "no-store")
		h.writeJSON(w, r, body)
	}
}
