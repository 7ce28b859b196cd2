package ops

import (
	"net/http"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
)

// list serves GET /notifications: a [desk.Listing]. Its parameters are those of [desk.ParseFilter].
func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	listing, err := h.cfg.Many.List(r.Context(), r.URL.Query())
	if err != nil {
		h.refused(w, r, err)
		return
	}
	h.writeJSON(w, r, listing)
}

// refused says what is wrong with a request, or that the store can't be read.
func (h *handler) refused(w http.ResponseWriter, r *http.Request, err error) {
	var faults []string
	for _, fault := range notification.FieldErrors(err) {
		faults = append(faults, fault.Error())
	}
	if len(faults) == 0 {
		h.unavailable(w, r, err)
		return
	}
	plain(w, http.StatusUnprocessableEntity, strings.Join(faults, "\n"))
}
