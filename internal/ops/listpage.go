package ops

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// listPage is the page of the notifications that its address selects.
type listPage struct {
	*desk.Listing

	Names  desk.Names
	Fields []listField
	// Fault says why nothing is listed; "" when it is.
	Fault string

	// query is the address without what is empty, which a form sends too.
	query url.Values
}

// listField is one part of the filter, with the value that the address gives it.
type listField struct {
	Name, Label, Value string
	// List is the id of what is suggested, Hint an example.
	List, Hint string
}

// listFields are the parts of the filter besides the status.
var listFields = []listField{
	{Name: "user", Label: "User"},
	{Name: "category", Label: "Category", List: "categories"},
	{Name: "channel", Label: "Channel", List: "channels"},
	{Name: "reason", Label: "Reason begins with"},
	{Name: "host", Label: "Host"},
	{Name: "since", Label: "Accepted since", List: "ages", Hint: "2h, or a time"},
	{Name: "until", Label: "Accepted before", List: "ages", Hint: "1h, or a time"},
	{Name: "text", Label: "Text"},
}

// listPage serves GET /list.html. Its parameters are those of [desk.ParseFilter].
func (h many) listPage(w http.ResponseWriter, r *http.Request) {
	p := &listPage{Listing: &desk.Listing{}, Names: h.cfg.Many.Names(), query: url.Values{}}
	for name := range r.URL.Query() {
		if value := strings.TrimSpace(r.URL.Query().Get(name)); value != "" {
			p.query.Set(name, value)
		}
	}
	for _, field := range listFields {
		field.Value = p.query.Get(field.Name)
		p.Fields = append(p.Fields, field)
	}
	status, fault := h.searches(r)
	if p.Fault = fault; status == 0 {
		status = h.readList(w, r, p)
	}
	h.writePage(w, r, status, framed("list"), p)
}

// readList reads what the address selects, and returns the status to respond with.
func (h many) readList(w http.ResponseWriter, r *http.Request, p *listPage) int {
	listing, err := h.cfg.Many.List(r.Context(), p.query)
	if err == nil {
		p.Listing = listing
		return http.StatusOK
	}
	if p.Fault = faultsIn(err); p.Fault != "" {
		return http.StatusUnprocessableEntity
	}
	p.Fault, p.Partial = h.excuse(w, r, err), true
	return http.StatusServiceUnavailable
}

// Statuses are all that the list may be of.
func (p *listPage) Statuses() []notification.Status { return notification.Statuses() }

// Status is the one that is chosen; "" for all.
func (p *listPage) Status() string { return p.query.Get("status") }

// Newest is the address of the first page; "" on it.
func (p *listPage) Newest() string {
	if !p.query.Has("cursor") {
		return ""
	}
	return p.With("cursor", "")
}

// With is the address of the list with another value of one parameter, from its first page on; without it for "".
func (p *listPage) With(name, value string) string {
	query := url.Values{name: {value}}
	for other, values := range p.query {
		if other != name && other != "cursor" {
			query[other] = values
		}
	}
	if value == "" {
		query.Del(name)
	}
	if len(query) == 0 {
		return "list.html"
	}
	return "list.html?" + query.Encode()
}
