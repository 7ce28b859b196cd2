package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/settings"
)

// durablePosts measures accepting over the API, one notification in each request, by a process with no other role.
func durablePosts(ctx context.Context, o options) (sample, error) {
	return withDurable(ctx, func(p *pacer, m *meter) (sample, error) {
		if err := p.Start(ctx); err != nil {
			return sample{}, err
		}
		return postAll(ctx, m, "http://"+p.Addr()+"/v1/notifications", o.n)
	}, func(r *settings.Resolved) { r.Roles = []settings.Role{settings.RoleAPI} })
}

// postAll posts n notifications, each caller over a connection that it keeps.
func postAll(ctx context.Context, m *meter, url string, n int) (sample, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	post := func(i int) error {
		body := `{"user_id":"user-` + strconv.Itoa(i) + `","channel":"log","title":"hello","body":"` + strconv.Itoa(i) + `"}`
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusAccepted {
			err = fmt.Errorf("%s: %s", response.Status, text)
		}
		return err
	}
	if err := spread(callers, post); err != nil { // each caller connects
		return sample{}, err
	}
	return m.run(ctx, n, func() error { return spread(n, func(i int) error { return post(callers + i) }) })
}

// plain is a notification as a plain handler takes it.
type plain struct {
	ID        uuid.UUID `json:"id"`
	UserID    string    `json:"user_id"`
	Channel   string    `json:"channel"`
	Title     string    `json:"title"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"created_at"`
}

const (
	plainTable = `CREATE TABLE plain (id uuid PRIMARY KEY, user_id text NOT NULL, channel text NOT NULL,
		title text NOT NULL, body text NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`
	plainInsert = `INSERT INTO plain (id, user_id, channel, title, body) VALUES ($1, $2, $3, $4, $5)
		RETURNING created_at`
)

// plainHandler inserts one row for each request, and responds when it is committed.
func plainHandler(pool *pgxpool.Pool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/notifications", func(w http.ResponseWriter, r *http.Request) {
		var n plain
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&n); err != nil || n.UserID == "" {
			http.Error(w, "not a notification", http.StatusUnprocessableEntity)
			return
		}
		n.ID = uuid.Must(uuid.NewV7())
		err := pool.QueryRow(r.Context(), plainInsert, n.ID, n.UserID, n.Channel, n.Title, n.Body).Scan(&n.CreatedAt)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(n) // the caller may have gone
	})
	return mux
}

// plainPosts measures a handler that does nothing but insert one row.
func plainPosts(ctx context.Context, o options) (sample, error) {
	return withPostgres(ctx, nil, func(database string, m *meter) (sample, error) {
		pool, err := newPool(ctx, database)
		if err != nil {
			return sample{}, err
		}
		defer pool.Close()
		if _, err := pool.Exec(ctx, plainTable); err != nil {
			return sample{}, err
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return sample{}, err
		}
		server := &http.Server{Handler: plainHandler(pool), ReadHeaderTimeout: 10 * time.Second}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		measured, err := postAll(ctx, m, "http://"+listener.Addr().String()+"/v1/notifications", o.n)
		closed := server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			closed = errors.Join(closed, ended)
		}
		return measured, errors.Join(err, closed)
	})
}
