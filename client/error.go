package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Error is a response that refuses the request: an RFC 9457 problem.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Title and Detail say what is wrong, for people.
	Title, Detail string
	// Fields are the fields that are wrong.
	Fields []FieldError
}

// FieldError says what is wrong with one field.
type FieldError struct {
	Field, Message string
}

// Error reads "422 Unprocessable Entity: category: is not named in the policy".
func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s", e.Status, e.Title)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// temporary tells whether the same request may succeed later.
func (e *Error) temporary() bool {
	return e.Status >= http.StatusInternalServerError && e.Status != http.StatusNotImplemented ||
		e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout ||
		// The first request with the idempotency key is still being worked on.
		e.Status == http.StatusConflict && strings.Contains(e.Detail, "just being accepted")
}

// maxDetail bounds what is kept of a response that is not a problem document.
const maxDetail = 200

func parseError(status int, body []byte) *Error {
	var problem struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Errors []struct {
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
	e.Detail = problem.Detail
	for _, fault := range problem.Errors {
		e.Fields = append(e.Fields, FieldError{strings.TrimPrefix(fault.Location, "body."), fault.Message})
	}
	return e
}
