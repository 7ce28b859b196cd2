package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// retryAfter is how many seconds a client should wait while the store is away.
const retryAfter = 2

// retryAfterFull is how many seconds a client should wait while the store is full, which takes longer to pass.
const retryAfterFull = 10

// The types of problems that a program may want to tell apart.
const (
	// typeIDConflict: the id was accepted before with other content.
	typeIDConflict = "id-conflict"
	// typeKeyReused: the idempotency key was used for another notification.
	typeKeyReused = "key-reused"
	// typeTooLate: it could not go in time.
	typeTooLate = "too-late"
	// typeOverflow: too many wait in its category of its user.
	typeOverflow = "overflow"
)

// problemType is the type of the problem that refuses a notification; empty for a plain one.
func problemType(err error) string {
	switch {
	case errors.Is(err, notification.ErrConflict):
		return typeIDConflict
	case errors.Is(err, intake.ErrKeyReused):
		return typeKeyReused
	case errors.As(err, new(*notification.TooLateError)):
		return typeTooLate
	case errors.As(err, new(*notification.OverflowError)):
		return typeOverflow
	}
	return ""
}

// problem makes an RFC 9457 problem. Of what the client sent it repeats names and times, never contents or targets.
func problem(status int, detail string, faults ...error) huma.StatusError {
	p := &huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail}
	for _, fault := range faults {
		for _, field := range notification.FieldErrors(fault) {
			p.Errors = append(p.Errors, &huma.ErrorDetail{Location: "body." + field.Field, Message: field.Message})
		}
	}
	return p
}

// refusal says why a notification was not accepted.
func refusal(err error) error {
	late, tooLate := errors.AsType[*notification.TooLateError](err)
	overflow, overflows := errors.AsType[*notification.OverflowError](err)
	switch {
	case overflows:
		p := &huma.ErrorModel{
			Type: typeOverflow, Status: http.StatusTooManyRequests, Title: http.StatusText(http.StatusTooManyRequests),
			Detail: err.Error(),
		}
		return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {strconv.Itoa(overflow.RetryAfter())}})
	case tooLate:
		return &lateProblem{
			ErrorModel: huma.ErrorModel{
				Type: typeTooLate, Status: http.StatusUnprocessableEntity,
				Title: http.StatusText(http.StatusUnprocessableEntity), Detail: err.Error(),
			}, DeliverAt: optional(late.DeliverAt), Reason: late.Reason,
		}
	case problemType(err) != "":
		return typed(err)
	case len(notification.FieldErrors(err)) > 0:
		return problem(http.StatusUnprocessableEntity, summary(err), err)
	case errors.Is(err, intake.ErrUnstorable):
		return problem(http.StatusUnprocessableEntity, err.Error())
	case errors.As(err, new(*notification.LockedError)):
		return later(err.Error())
	}
	return problem(http.StatusBadRequest, err.Error())
}

// lateProblem refuses a notification that could not go in time.
type lateProblem struct {
	huma.ErrorModel

	DeliverAt *time.Time `json:"deliver_at,omitempty" doc:"Of the type too-late: the earliest moment; absent while nobody can tell."`
	Reason    string     `json:"reason,omitempty" doc:"Of the type too-late: what it would wait for until then."`
}

// typed is the refusal of a notification whose id or key was used before.
func typed(err error) error {
	p := &huma.ErrorModel{Type: problemType(err), Status: http.StatusConflict, Detail: err.Error()}
	if conflict, ok := errors.AsType[*notification.ConflictError](err); ok {
		for _, field := range conflict.Fields {
			p.Errors = append(p.Errors, &huma.ErrorDetail{
				Location: "body." + field, Message: "differs from what was accepted under this id",
			})
		}
	}
	if p.Type == typeKeyReused {
		p.Status = http.StatusUnprocessableEntity
		p.Errors = []*huma.ErrorDetail{{
			Location: "body.idempotency_key", Message: "was used for another notification",
		}}
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// summary puts the faults of a notification into one sentence.
func summary(err error) string {
	var parts []string
	for _, field := range notification.FieldErrors(err) {
		parts = append(parts, field.Error())
	}
	return strings.Join(parts, "; ")
}

// away says that the store can't be reached now or has no room. The cause goes to the log, not to the client.
func (a *api) away(ctx context.Context, what string, err error) error {
	if errors.Is(err, intake.ErrFull) { // the log said so when it began
		return huma.ErrorWithHeaders(problem(http.StatusServiceUnavailable,
			"the queue is full: Redis is almost out of memory; try again once waiting notifications have been delivered"),
			http.Header{"Retry-After": {strconv.Itoa(retryAfterFull)}})
	}
	if errors.Is(err, intake.ErrNoPromise) {
		a.cfg.Log.WarnContext(ctx, "could not promise when notifications would go; refused the request", "while", what, "error", err)
		return later("no promise can be made now, because Redis does not respond, is being rebuilt or has yet to catch up; nothing was accepted: try again, or send it without promise and max_wait")
	}
	if locked, ok := errors.AsType[*notification.LockedError](err); ok {
		a.cfg.Log.WarnContext(ctx, "a row in the database is locked; refused the request", "while", what, "error", err)
		return later(locked.Error())
	}
	a.cfg.Log.ErrorContext(ctx, "could not reach the store; refused the request", "while", what, "error", err)
	return later("the store can't be reached now; try again")
}

// later has a client try again after retryAfter.
func later(detail string) error {
	return huma.ErrorWithHeaders(problem(http.StatusServiceUnavailable, detail),
		http.Header{"Retry-After": {strconv.Itoa(retryAfter)}})
}

// writeProblem responds to a request that reached no operation.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(problem(status, detail))
	if err != nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
}

// withFallback responds to requests that no operation matches: with 404, or with 405 and the methods that would match.
func withFallback(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		var allowed []string
		for _, method := range []string{
			http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		} {
			probe := r.Clone(r.Context())
			probe.Method = method
			if _, pattern := mux.Handler(probe); pattern != "" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			writeProblem(w, http.StatusNotFound, "there is nothing at this path; /docs lists the paths that exist")
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeProblem(w, http.StatusMethodNotAllowed, "this path accepts "+strings.Join(allowed, " or "))
	})
}
