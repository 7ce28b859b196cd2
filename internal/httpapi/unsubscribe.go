package httpapi

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/feedback"
)

// Inbox takes what comes back about e-mails.
type Inbox interface {
	// OptedOut reports what a link is for, and whether its user has opted out of it; OptOut and OptIn change that. They
	// return [feedback.ErrNoLink] for a link that is none of this deployment's.
	OptedOut(ctx context.Context, token string) (feedback.Link, bool, error)
	OptOut(ctx context.Context, token string) (feedback.Link, error)
	OptIn(ctx context.Context, token string) (feedback.Link, error)
	// Take reads a message that came back, and does what follows from it.
	Take(ctx context.Context, message []byte) (feedback.Result, error)
}

const (
	// unsubscribePath is where users and their mail providers unsubscribe. The link is the permission: there is no
	// bearer token.
	unsubscribePath = feedback.Path + "{token}"
	// maxForm bounds the body of such a request.
	maxForm = 4 << 10
)

// The fields of the forms. The first is that of RFC 8058, which mail providers send by themselves.
const (
	fieldOut, valueOut = "List-Unsubscribe", "One-Click"
	fieldIn, valueIn   = "Subscribe", "Again"
)

//go:embed unsubscribe.html
var unsubscribeSource string

// unsubscribeTemplate has a title, a text and a button.
var unsubscribeTemplate = template.Must(template.New("unsubscribe").Parse(unsubscribeSource))

// unsubscribePage is what a user is shown.
type unsubscribePage struct {
	Title, Text string
	Button      *button
}

// button sends one field.
type button struct{ Field, Value, Label string }

// askPage asks, since programs follow links too.
func askPage(category string) unsubscribePage {
	return unsubscribePage{
		Title:  "Unsubscribe from “" + category + "”?",
		Text:   "You will get no more messages of this kind, by e-mail or in any other way.",
		Button: &button{fieldOut, valueOut, "Unsubscribe"},
	}
}

func outPage(category string) unsubscribePage {
	return unsubscribePage{
		Title:  "You will get no more “" + category + "” e-mails.",
		Text:   "Nor will messages of this kind reach you in any other way. If this was a mistake, take it back here.",
		Button: &button{fieldIn, valueIn, "Subscribe again"},
	}
}

func inPage(category string) unsubscribePage {
	return unsubscribePage{
		Title:  "You are subscribed to “" + category + "” again.",
		Button: &button{fieldOut, valueOut, "Unsubscribe"},
	}
}

// registerUnsubscribe serves the links. These operations are described here, since their responses are pages for
// people.
func (a *api) registerUnsubscribe(h huma.API, mux *http.ServeMux) {
	page := map[string]*huma.MediaType{"text/html": {Schema: &huma.Schema{Type: huma.TypeString}}}
	responses := map[string]*huma.Response{
		"200": {Description: "A page for people", Content: page},
		"404": {Description: "The link does not belong to this deployment; a page for people", Content: page},
		"503": {Description: "The store can't be reached now; a page for people", Content: page},
	}
	path := []*huma.Param{{
		Name: "token", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		Description: "The token of a link in an e-mail.",
	}}
	h.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "get-unsubscribe", Method: http.MethodGet, Path: unsubscribePath,
		Summary: "Show a user the page to unsubscribe",
		Description: "The link in an e-mail's List-Unsubscribe header leads here. It needs no bearer token, and changes " +
			"nothing: programs follow links.",
		Tags: []string{"e-mail"}, Security: []map[string][]string{}, Parameters: path, Responses: responses,
	})
	posted := maps.Clone(responses)
	posted["422"] = &huma.Response{Description: "The form has neither field"}
	h.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "unsubscribe", Method: http.MethodPost, Path: unsubscribePath,
		Summary: "Unsubscribe with one click (RFC 8058), or take it back",
		Description: "With " + fieldOut + "=" + valueOut + " the user is opted out of the link's category: it joins the user's " +
			"preferences, and waiting notifications of it end as cancelled. With " + fieldIn + "=" + valueIn + " it leaves them. " +
			"It needs no bearer token, and may be repeated.",
		Tags: []string{"e-mail"}, Security: []map[string][]string{}, Parameters: path, Responses: posted,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			mediaForm:             {Schema: &huma.Schema{Type: huma.TypeObject}},
			"multipart/form-data": {Schema: &huma.Schema{Type: huma.TypeObject}},
		}},
	})
	mux.HandleFunc("GET "+unsubscribePath, a.showUnsubscribe)
	mux.HandleFunc("POST "+unsubscribePath, a.unsubscribe)
}

// showUnsubscribe shows where the user stands.
func (a *api) showUnsubscribe(w http.ResponseWriter, r *http.Request) {
	a.withInbox(w, r, func(ctx context.Context, inbox Inbox, token string) (unsubscribePage, error) {
		link, out, err := inbox.OptedOut(ctx, token)
		if out {
			return outPage(link.Category), err
		}
		return askPage(link.Category), err
	})
}

// unsubscribe does what one of the buttons says, or a mail provider in the user's name.
func (a *api) unsubscribe(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	out, in := r.PostFormValue(fieldOut) == valueOut, r.PostFormValue(fieldIn) == valueIn
	if out == in {
		writeProblem(w, http.StatusUnprocessableEntity,
			"send a form with "+fieldOut+"="+valueOut+" or "+fieldIn+"="+valueIn)
		return
	}
	a.withInbox(w, r, func(ctx context.Context, inbox Inbox, token string) (unsubscribePage, error) {
		if in {
			link, err := inbox.OptIn(ctx, token)
			return inPage(link.Category), err
		}
		link, err := inbox.OptOut(ctx, token)
		return outPage(link.Category), err
	})
}

// withInbox shows a page, or why there is none.
func (a *api) withInbox(w http.ResponseWriter, r *http.Request,
	what func(context.Context, Inbox, string) (unsubscribePage, error),
) {
	page, err := unsubscribePage{}, feedback.ErrNoLink
	if a.cfg.Inbox != nil {
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		page, err = what(ctx, a.cfg.Inbox, r.PathValue("token"))
	}
	status := http.StatusOK
	switch {
	case errors.Is(err, feedback.ErrNoLink):
		status = http.StatusNotFound
		page = unsubscribePage{
			Title: "This link does not work.",
			Text:  "Part of it may be missing: open it from the e-mail again. Or ask whoever sent the e-mail to unsubscribe you.",
		}
	case err != nil:
		status = http.StatusServiceUnavailable
		a.cfg.Log.ErrorContext(r.Context(), "could not reach the store; refused the request", "while", "unsubscribe a user", "error", err)
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		page = unsubscribePage{Title: "This does not work now.", Text: "Nothing has changed. Try again in a minute."}
	}
	writePage(w, status, page)
}

func writePage(w http.ResponseWriter, status int, page unsubscribePage) {
	var text bytes.Buffer
	if err := unsubscribeTemplate.Execute(&text, page); err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer") // the link is a permission
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // an error means that the client is gone
}
