package ops

import (
	"html/template"
	"net/http"
	"regexp"
	"time"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// found is what the page about one notification or user shows.
type found struct {
	desk.Found

	Title string
	// Fault says why it can't be told, or not all; "" when it can.
	Fault string
}

// Partial reports whether asking again may tell more.
func (f *found) Partial() bool {
	return f.Fault != "" || f.User != nil && f.User.Partial || f.Notification != nil && f.Notification.Partial
}

// lookup serves the page about what has an id: a notification, or else a user. It never responds with 404, which
// browsers report as an error.
func (h *handler) lookup(w http.ResponseWriter, r *http.Request, query string) {
	page, status := &found{Title: "User " + query}, http.StatusOK
	result, err := h.cfg.Desk.LookUp(r.Context(), query)
	switch {
	case err != nil:
		page.Title, page.Fault, status = "Could not look up "+query, h.excuse(w, r, err), http.StatusServiceUnavailable
	case result.Notification != nil:
		result.Notification = h.withhold(r, result.Notification)
		page.Title = "Notification " + query
	}
	page.Found = result
	of := frame{Page: "found", Title: page.Title, Query: query, Script: "lookup.js", Template: "found.html"}
	h.writePage(w, r, status, of, page)
}

// moments matches the moments within a sentence.
var moments = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// sentence marks the moments within a sentence, so that the page can write them by the reader's clock.
func sentence(text string) template.HTML {
	//nolint:gosec // the text is escaped
	return template.HTML(moments.ReplaceAllString(template.HTMLEscapeString(text), `<time datetime="$0">$0</time>`))
}

// until says how far a moment lies ahead.
func until(at time.Time) string {
	if left := time.Until(at); left > 0 {
		return "in " + timespan.Seconds(left)
	}
	return "now"
}

// gap is the time from one moment to a later one.
func gap(from, to time.Time) string { return timespan.Text(to.Sub(from).Round(time.Millisecond)) }

// took writes a time of so many milliseconds, exact to a hundredth of one.
func took(ms float64) string { return timespan.Text(time.Duration(ms*100) * 10 * time.Microsecond) }

// short takes out the middle of an id that would fill a row.
func short(id string) string {
	if runes := []rune(id); len(runes) > 37 {
		return string(runes[:18]) + "…" + string(runes[len(runes)-18:])
	}
	return id
}
