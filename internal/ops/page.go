package ops

import (
	"embed"
	"io/fs"
	"net/http"
)

// static holds the dashboard. It has no build step and loads nothing from another host.
//
//go:embed static
var static embed.FS

// contentPolicy lets the page load its own files and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page serves the dashboard's files, and lists their names.
func page() (serve http.Handler, names []string) {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	names, err = fs.Glob(files, "*")
	if err != nil {
		panic(err) // the pattern is a right one
	}
	server := http.FileServerFS(files)
	serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-cache")
		server.ServeHTTP(w, r)
	})
	return serve, names
}
