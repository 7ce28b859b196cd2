package ops

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// many serves what concerns many notifications: their list, the jobs that change them, their history.
type many struct{ *handler }

// list serves GET /notifications: a [desk.Listing]. Its parameters are those of [desk.ParseFilter].
func (h many) list(w http.ResponseWriter, r *http.Request) {
	if status, why := h.searches(r); status != 0 {
		plain(w, status, why)
		return
	}
	listing, err := h.cfg.Many.List(r.Context(), r.URL.Query())
	h.respond(w, r, listing, err)
}

// searches says why somebody may not search for the text that a request asks for, with the status to respond with; 0
// for those who may. Such a search would tell the contents bit by bit, so it is for those who may read them.
func (h many) searches(r *http.Request) (status int, why string) {
	if r.URL.Query().Get("text") == "" {
		return 0, ""
	}
	switch status = h.refusal(r); status {
	case http.StatusUnauthorized:
		why = "a text search reads contents: " + needsToken
	case http.StatusForbidden:
		why = "a text search reads contents, which works only on a loopback address, or with --ops-token"
	}
	return status, why
}

// bulk serves POST /bulk: for a [desk.BulkOrder] without a confirmation a [desk.BulkCount], for one with it the
// [desk.BulkJob] that it begins.
func (h many) bulk(w http.ResponseWriter, r *http.Request) {
	var order desk.BulkOrder
	if !readOrder(w, r, "order", &order) {
		return
	}
	if utf8.RuneCountInString(order.Why) > maxText {
		plain(w, http.StatusBadRequest, fmt.Sprintf("why: at most %d characters", maxText))
		return
	}
	if order.Confirm == "" {
		count, err := h.cfg.Many.CountBulk(r.Context(), order)
		h.respond(w, r, count, err)
		return
	}
	job, err := h.cfg.Many.BeginBulk(r.Context(), order, operator(r))
	h.respond(w, r, job, err)
}

// jobs serves GET /bulk: the latest jobs, newest first, each a [desk.BulkJob].
func (h many) jobs(w http.ResponseWriter, r *http.Request) {
	jobs, err := h.cfg.Many.Jobs(r.Context())
	h.respond(w, r, jobs, err)
}

// job serves GET /bulk/{id}: a [desk.BulkJob].
func (h many) job(w http.ResponseWriter, r *http.Request) {
	job, err := h.cfg.Many.Job(r.Context(), r.PathValue("id"))
	h.respond(w, r, job, err)
}

// stopJob serves POST /bulk/{id}/cancel, which ends a job early.
func (h many) stopJob(w http.ResponseWriter, r *http.Request) {
	job, err := h.cfg.Many.StopJob(r.Context(), r.PathValue("id"), operator(r))
	h.respond(w, r, job, err)
}

// history serves GET /history: a [desk.History]. Its parameters are category and since.
func (h many) history(w http.ResponseWriter, r *http.Request) {
	history, err := desk.ReadHistory(r.Context(), h.cfg.Many.Store, r.URL.Query(), h.cfg.Many.Names(),
		time.Now())
	h.respond(w, r, history, err)
}

// respond writes the body, or what is wrong with the request, or that the store can't be read.
func (h *handler) respond(w http.ResponseWriter, r *http.Request, body any, err error) {
	refusal, refused := errors.AsType[*RefusalError](err)
	faults := faultsIn(err)
	switch {
	case err == nil:
		h.writeJSON(w, r, body)
	case errors.Is(err, control.ErrNoJob):
		plain(w, http.StatusNotFound, "there is no job "+nearest.Quote(r.PathValue("id"))+
			"; dispatcher jobs and GET /bulk list the latest")
	case refused:
		plain(w, http.StatusConflict, refusal.Reason)
	case faults != "":
		plain(w, http.StatusUnprocessableEntity, faults)
	default:
		h.unavailable(w, r, err)
	}
}

// faultsIn tells what is wrong with the parameters of a request, a line each; "" when it is nothing of that.
func faultsIn(err error) string {
	var lines []string
	for _, fault := range notification.FieldErrors(err) {
		lines = append(lines, fault.Error())
	}
	return strings.Join(lines, "\n")
}
