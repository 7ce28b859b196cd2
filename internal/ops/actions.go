package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/wire"
)

// Actions are what operators can do to the deployment. An action that returns a [RefusalError] has changed nothing.
type Actions interface {
	// Pause pauses a channel, category or partition; Resume ends the pause.
	Pause(ctx context.Context, p control.Pause) error
	Resume(ctx context.Context, s control.Subject) error
	// Cancel ends a notification that waits.
	Cancel(ctx context.Context, id string) error
	// Change changes or releases a notification that waits.
	Change(ctx context.Context, id string, c notification.Change) error
	// Retry sends a failed notification again, as a new one, and returns the new id. Move has one go on over another
	// channel.
	Retry(ctx context.Context, id string) (newID string, err error)
	Move(ctx context.Context, id, channel string) (newID string, err error)
	// Note writes an entry of the audit log, AuditLog returns the latest.
	Note(ctx context.Context, e control.Entry) error
	AuditLog(ctx context.Context, limit int) ([]control.Entry, error)
}

type (
	// RefusalError says why an action was not taken.
	RefusalError = desk.RefusalError
	// PartialError says what was done in place of what was asked for. That is in the audit log.
	PartialError = desk.PartialError
)

// Action is what is posted to /actions.
type Action struct {
	// Action is pause, resume, cancel, change, release, retry or move.
	Action string `json:"action"`
	// Kind and Name say what to pause or resume; Why is for the audit log.
	Kind control.Kind `json:"kind,omitempty"`
	Name string       `json:"name,omitempty"`
	Why  string       `json:"why,omitempty"`
	// ID is the notification to cancel, change, release, retry or move; Channel where it is moved, Change what it is to
	// have, see [wire.DecodeChange].
	ID      string          `json:"id,omitempty"`
	Channel string          `json:"channel,omitempty"`
	Change  json.RawMessage `json:"change,omitempty"`
}

// Done is the response to an action that was taken.
type Done struct {
	Done string `json:"done"`
	// ID is the new notification's, after a retry.
	ID string `json:"id,omitempty"`

	detail string // for the audit log
}

const (
	// operatorHeader names who acts, for the audit log.
	operatorHeader = "Pacer-Operator"
	// maxAction bounds the body of an action, in bytes; maxText a reason or an operator's name, in characters.
	maxAction = 4 << 10
	maxText   = 200
	// auditLogShown is how many entries of the audit log are shown.
	auditLogShown = 100
	// noteTimeout bounds the writing of an entry.
	noteTimeout = 3 * time.Second
)

func (h *handler) act(w http.ResponseWriter, r *http.Request) {
	var action Action
	if !readOrder(w, r, "action", &action) {
		return
	}
	if utf8.RuneCountInString(action.Why) > maxText {
		plain(w, http.StatusBadRequest, fmt.Sprintf("why: at most %d characters", maxText))
		return
	}
	done, subject, err := h.perform(r.Context(), action, operator(r))
	switch {
	case errors.Is(err, notification.ErrNotFound):
		plain(w, http.StatusNotFound, noSuch(action.ID))
		return
	case err != nil:
		if refusal, ok := errors.AsType[*RefusalError](err); ok {
			plain(w, http.StatusConflict, refusal.Reason)
			return
		}
		if partial, ok := errors.AsType[*PartialError](err); ok {
			h.audit(r, action.Action, subject, partial.Reason)
			plain(w, http.StatusConflict, partial.Reason)
			return
		}
		h.unavailable(w, r, err)
		return
	}
	h.audit(r, action.Action, subject, cmp.Or(action.Why, done.detail, done.ID))
	h.writeJSON(w, r, done)
}

// audit writes down what an operator did, also of one who has gone in the meantime.
func (h *handler) audit(r *http.Request, action, subject, detail string) {
	if h.cfg.Live != nil {
		h.cfg.Live.changed() // operators see what they did
	}
	entry := control.Entry{By: operator(r), Action: action, Subject: subject, Detail: detail}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), noteTimeout)
	defer cancel()
	if err := h.cfg.Actions.Note(ctx, entry); err != nil {
		h.cfg.Log.ErrorContext(ctx, "took an operator's action but could not write it to the audit log",
			"action", action, "subject", subject, "by", entry.By, "error", err)
	}
	h.cfg.Log.InfoContext(ctx, "an operator took an action",
		"action", action, "subject", subject, "by", entry.By, "detail", detail)
}

// readOrder reads the body of an order. When it can't be read, it responds with why, and returns false.
func readOrder(w http.ResponseWriter, r *http.Request, what string, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAction))
	if err == nil && len(body) == 0 {
		plain(w, http.StatusBadRequest, "the "+what+` is missing: the body is empty, send JSON such as {"action":"cancel", …}`)
		return false
	}
	if err == nil {
		err = wire.Unmarshal(body, into)
	}
	if err != nil {
		plain(w, http.StatusBadRequest, "the "+what+" can't be read: "+err.Error())
	}
	return err == nil
}

// noSuch says that there is no notification with an id.
func noSuch(id string) string {
	if id == "" {
		return "id: is required; it names the notification"
	}
	return fmt.Sprintf("%v: %s was never accepted, or ended so long ago that it is no longer kept", notification.ErrNotFound,
		nearest.Quote(id))
}

// perform takes an action and reports what was done, to what.
func (h *handler) perform(ctx context.Context, a Action, by string) (done Done, subject string, err error) {
	s := control.Subject{Kind: a.Kind, Name: a.Name}
	switch a.Action {
	case "pause":
		err = h.cfg.Actions.Pause(ctx, control.Pause{Subject: s, By: by, Why: a.Why})
		return Done{Done: s.String() + " is paused"}, s.String(), err
	case "resume":
		err = h.cfg.Actions.Resume(ctx, s)
		return Done{Done: s.String() + " is resumed"}, s.String(), err
	case "cancel":
		err = h.cfg.Actions.Cancel(ctx, a.ID)
		return Done{Done: a.ID + " is cancelled"}, a.ID, err
	case "change":
		done, err = change(ctx, h.cfg.Actions, a)
		return done, a.ID, err
	case "release":
		err = h.cfg.Actions.Change(ctx, a.ID, notification.Change{Release: true})
		return Done{Done: a.ID + " is released, and goes before all others"}, a.ID, err
	case "retry":
		id, err := h.cfg.Actions.Retry(ctx, a.ID)
		return Done{Done: a.ID + " is sent again as " + id, ID: id}, a.ID, err
	case "move":
		id, err := h.cfg.Actions.Move(ctx, a.ID, a.Channel)
		return Done{Done: a.ID + " goes on over " + a.Channel + " as " + id, ID: id}, a.ID, err
	}
	names := []string{"pause", "resume", "cancel", "change", "release", "retry", "move"}
	return done, "", &RefusalError{Reason: fmt.Sprintf("there is no action %q: use one of %s%s", a.Action,
		nearest.List(names), nearest.Hint(a.Action, names))}
}

// change changes a notification as an operator says.
func change(ctx context.Context, actions Actions, a Action) (Done, error) {
	c, err := wire.DecodeChange(a.Change)
	if err != nil {
		return Done{}, &RefusalError{Reason: err.Error(), Err: err}
	}
	_, what, _ := strings.Cut(c.Event(), " ")
	return Done{Done: a.ID + " is changed: " + what, detail: what}, actions.Change(ctx, a.ID, c)
}

func (h *handler) auditLog(w http.ResponseWriter, r *http.Request) {
	entries, err := h.cfg.Actions.AuditLog(r.Context(), auditLogShown)
	if err != nil {
		h.unavailable(w, r, err)
		return
	}
	h.writeJSON(w, r, entries)
}

// operator is who acts: what he says of himself, and where he comes from.
func operator(r *http.Request) string {
	name := strings.Map(func(c rune) rune {
		if c < ' ' {
			return -1
		}
		return c
	}, r.Header.Get(operatorHeader))
	if runes := []rune(name); len(runes) > maxText {
		name = string(runes[:maxText])
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return strings.TrimSpace(name + " (" + host + ")")
}
