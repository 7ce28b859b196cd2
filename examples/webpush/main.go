// Command webpush is a page on which a browser subscribes to notifications, and the server behind it. It shows what a
// site needs to use pacer's Web Push channel: README.md says how to run it.
//
// The browser never talks to pacer. The server knows who is logged in and has pacer's token; it hands the public key to
// the page, and what the page gets for it to pacer.
package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/pacer-notify/pacer/client"
)

//go:embed page
var files embed.FS

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "where the page is served; browsers subscribe on localhost and over https only")
	api := flag.String("api", "http://127.0.0.1:8080", "pacer's API; its token comes from PACER_TOKEN")
	user := flag.String("user", "ada", "who is logged in: here everybody is the same user")
	flag.Parse()
	if err := run(*listen, *api, os.Getenv("PACER_TOKEN"), *user); err != nil {
		fmt.Fprintln(os.Stderr, "webpush:", err)
		os.Exit(1)
	}
}

func run(listen, api, token, user string) error {
	site, err := newSite(api, token, user, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "open http://"+listen)
	server := &http.Server{Addr: listen, Handler: site, ReadHeaderTimeout: 30 * time.Second}
	return server.ListenAndServe()
}

// site serves the page of one user.
type site struct {
	api, token, user string
	pacer            *client.Client
	log              *slog.Logger
}

func newSite(api, token, user string, log *slog.Logger) (http.Handler, error) {
	pacer, err := client.New(client.Config{Server: api, Token: token})
	if err != nil {
		return nil, fmt.Errorf("use pacer's API: %w", err)
	}
	served, err := fs.Sub(files, "page")
	if err != nil {
		return nil, err
	}
	s := &site{api: api, token: token, user: user, pacer: pacer, log: log}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(served))
	mux.HandleFunc("GET /key", s.key)
	mux.HandleFunc("PUT /subscription", s.subscribe)
	mux.HandleFunc("POST /order", s.order)
	return http.NewCrossOriginProtection().Handler(mux), nil
}

// key hands out the public key with which the page subscribes.
func (s *site) key(w http.ResponseWriter, r *http.Request) {
	var key struct {
		PublicKey string `json:"public_key"`
	}
	if err := s.call(r.Context(), http.MethodGet, "/v1/webpush/key", nil, &key); err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(key) // an error means that the browser is gone
}

// subscribe registers the browser as a device of the user. The same browser always has the same name, so that a new
// subscription replaces the old one. What the browser made is the target, as it is.
func (s *site) subscribe(w http.ResponseWriter, r *http.Request) {
	subscription, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<10))
	if err != nil {
		s.fail(w, err)
		return
	}
	device := map[string]string{"channel": "webpush", "to": string(subscription)}
	path := "/v1/users/" + url.PathEscape(s.user) + "/devices/browser"
	if err := s.call(r.Context(), http.MethodPut, path, device, nil); err != nil {
		s.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// order sends the user a notification. It names no target, so it goes to all of the user's devices of the channel.
func (s *site) order(w http.ResponseWriter, r *http.Request) {
	_, err := s.pacer.Enqueue(r.Context(), client.Notification{
		UserID: s.user, Channel: "webpush", Title: "Your order is on its way", Body: "It arrives tomorrow before noon.",
	})
	if err != nil {
		s.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// call calls an operation of pacer's API that the client package does not have.
func (s *site) call(ctx context.Context, method, path string, body, result any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, s.api+path, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return errors.New(string(reply))
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(reply, result)
}

// fail tells the log what is wrong, and the browser that something is.
func (s *site) fail(w http.ResponseWriter, err error) {
	s.log.Error("pacer did not take it", "error", err)
	http.Error(w, "pacer did not take it; the server's log says why", http.StatusBadGateway)
}
