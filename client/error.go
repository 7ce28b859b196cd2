package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Error is a response that refuses the request: an RFC 9457 problem.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type tells some refusals apart for programs: id-conflict, key-reused, too-late. Else it is empty.
	Type string
	// Title and Detail say what is wrong, for people.
	Title, Detail string
	// Fields are the fields that are wrong.
	Fields []FieldError
	// DeliverAt is the earliest moment, of the type too-late; zero while nobody can tell.
	DeliverAt time.Time
}

// FieldError says what is wrong with one field.
type FieldError struct {
	Field, Message string
}

// ErrConflict says that an id was accepted before with other content. It is what an [*Error] of the type id-conflict
// is; the error's Fields are those that differ.
var ErrConflict = errors.New("the id was accepted before with other content")

const typeConflict = "id-conflict"

// Is makes an error of the type id-conflict an [ErrConflict].
func (e *Error) Is(target error) bool { return target == ErrConflict && e.Type == typeConflict }

// Error reads "422 Unprocessable Entity: user_id: is required".
func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s", e.Status, e.Title)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// temporary reports whether the same request may succeed later.
func (e *Error) temporary() bool {
	return e.Status >= http.StatusInternalServerError && e.Status != http.StatusNotImplemented ||
		e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
}

// maxDetail bounds what is kept of a response that is not a problem document.
const maxDetail = 200

func parseError(status int, body []byte) *Error {
	var problem struct {
		Type      string    `json:"type"`
		Title     string    `json:"title"`
		Detail    string    `json:"detail"`
		DeliverAt time.Time `json:"deliver_at"`
		Errors    []struct {
			Location string `json:"location"`
			Message  string `json:"message"`
		} `json:"errors"`
	}
	e := &Error{Status: status, Title: http.StatusText(status)}
	if err := json.Unmarshal(body, &problem); err != nil {
		e.Detail = strings.ToValidUTF8(string(body[:min(len(body), maxDetail)]), "")
		return e
	}
	if problem.Title != "" {
		e.Title = problem.Title
	}
	e.Type, e.Detail, e.DeliverAt = problem.Type, problem.Detail, problem.DeliverAt
	for _, fault := range problem.Errors {
		e.Fields = append(e.Fields, FieldError{strings.TrimPrefix(fault.Location, "body."), fault.Message})
	}
	return e
}
