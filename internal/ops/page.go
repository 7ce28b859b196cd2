package ops

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The dashboard has no build step and loads nothing from another host: static are its files and, in vendor, those of
// others; pages is what differs from page to page in the one frame.
//
//go:embed static pages
var assets embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"moment":   func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") },
	"stamp":    func(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") },
	"contains": strings.Contains, "sentence": sentence, "until": until, "gap": gap, "took": took, "short": short,
	"indent": func(raw json.RawMessage) (string, error) {
		var text bytes.Buffer
		err := json.Indent(&text, raw, "", "  ")
		return text.String(), err
	},
}).ParseFS(assets, "pages/*.html"))

// contentPolicy lets a page load its own files and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// frame is what the pages have in common.
type frame struct {
	Page, Title, Address string
	// Script is the page's; Template is what fills its frame. Query is what was looked up.
	Script, Template, Query string
}

// frames are the pages, in the order of the navigation. Three of them are the same document: it listens to one stream.
var frames = []frame{
	{Page: "now", Title: "Now", Address: "./", Script: "app.js", Template: "now.html"},
	{Page: "list", Title: "Notifications", Address: "list.html", Script: "list.js", Template: "list.html"},
	{Page: "channels", Title: "Channels", Address: "./?page=channels", Script: "app.js", Template: "now.html"},
	{Page: "policy", Title: "Policy", Address: "policy.html", Script: "policy.js", Template: "policy.html"},
	{Page: "system", Title: "System", Address: "./?page=system", Script: "app.js", Template: "now.html"},
}

// Pages are all pages, for the navigation.
func (frame) Pages() []frame { return frames }

// framed is the frame of a page; the first one for a name that there is not.
func framed(page string) frame {
	return frames[max(0, slices.IndexFunc(frames, func(f frame) bool { return f.Page == page }))]
}

// writePage writes a page with its content.
func (h *handler) writePage(w http.ResponseWriter, r *http.Request, status int, of frame, content any) {
	var body, whole bytes.Buffer
	err := templates.ExecuteTemplate(&body, of.Template, content)
	if err == nil {
		err = templates.ExecuteTemplate(&whole, "frame.html", struct {
			frame

			Body template.HTML
		}{of, template.HTML(body.String())}) //nolint:gosec // a template has made it
	}
	if err != nil {
		h.cfg.Log.ErrorContext(r.Context(), "could not write an ops page", "page", of.Page, "error", err)
		plain(w, http.StatusInternalServerError, "this page can't be shown: this process's log says why")
		return
	}
	head(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(whole.Bytes()) // an error means that the client is gone
}

// now serves the pages that show the stream of snapshots, and the one about what somebody looks up.
func (h *handler) now(w http.ResponseWriter, r *http.Request) {
	if query := strings.TrimSpace(r.URL.Query().Get("q")); query != "" {
		h.lookup(w, r, query)
		return
	}
	h.writePage(w, r, http.StatusOK, framed(r.URL.Query().Get("page")), h.cfg.Live.peek())
}

// files serves the files that the pages load, and lists their names.
func files() (serve http.Handler, names []string) {
	static, err := fs.Sub(assets, "static")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	own, err := fs.Glob(static, "*.*")
	vendored, wrong := fs.Glob(static, "vendor/*")
	if err != nil || wrong != nil {
		panic("the patterns are right ones")
	}
	names = slices.Concat(own, vendored)
	server := http.FileServerFS(static)
	serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head(w.Header())
		server.ServeHTTP(w, r)
	})
	return serve, names
}

// head sets what holds for all pages and their files.
func head(header http.Header) {
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
}
