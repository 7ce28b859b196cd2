// Package demo is what `dispatcher demo` adds to a running process: a receiver for webhooks, a few users who get more
// notifications than they may, and a running commentary of when each goes out and why.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config of a Demo.
type Config struct {
	// API is the base URL of the process, such as http://127.0.0.1:8080.
	API string
	// Ops is the base URL of its ops pages.
	Ops string
	// Token is the API's bearer token, if it asks for one.
	Token string
	// Out gets the commentary.
	Out io.Writer
}

// Demo plays sample traffic.
type Demo struct {
	cfg      Config
	client   *http.Client
	receiver *http.Server
	listener net.Listener
	start    time.Time

	mu   sync.Mutex
	last map[string]time.Time // user, category and device → last arrival
	sent int
}

// New binds the receiver on a free loopback port.
func New(ctx context.Context, cfg Config) (*Demo, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the demo's receiver: %w", err)
	}
	d := &Demo{
		cfg: cfg, listener: listener, last: map[string]time.Time{}, start: time.Now(),
		client: &http.Client{Timeout: 5 * time.Second},
	}
	d.receiver = &http.Server{Handler: http.HandlerFunc(d.receive), ReadHeaderTimeout: 5 * time.Second}
	return d, nil
}

// message is one sample notification.
type message struct {
	UserID   string `json:"user_id,omitempty"`
	Category string `json:"category,omitempty"`
	Channel  string `json:"channel"`
	To       string `json:"to,omitempty"`
	Title    string `json:"title,omitempty"`
}

// devices are registered before the script begins: who has some needs no target.
var devices = map[string][]string{"dora": {"phone", "laptop"}}

// act is a burst of equal notifications at a time after the start.
type act struct {
	after    time.Duration
	user     string
	category string
	count    int
	what     string
}

// script is what happens, again and again, every round.
var script = []act{
	{0, "ada", "chat", 4, "four chat messages at once; the policy allows one per 3 s"},
	{0, "ben", "default", 3, "three at once; at most 10 per minute, 3 s apart"},
	{0, "cleo", "chat", 1, "one chat message: nothing to wait for"},
	{4 * time.Second, "ada", "security", 1, "a security alert: it bypasses the throttle"},
	{7 * time.Second, "cleo", "chat", 2, "two more chat messages"},
	{
		11 * time.Second, "dora", "chat", 2,
		"two without a target: each goes to her phone and to her laptop, and counts once",
	},
}

const (
	round      = 20 * time.Second
	statsEvery = 5 * time.Second
)

// Run plays the script until ctx ends.
func (d *Demo) Run(ctx context.Context) error {
	var receiving sync.WaitGroup
	receiving.Go(func() { _ = d.receiver.Serve(d.listener) }) // ends when it is closed
	defer func() {
		_ = d.receiver.Close() // nothing of the demo outlives it
		receiving.Wait()
		d.client.CloseIdleConnections()
	}()
	if err := d.register(ctx); err != nil {
		return err
	}
	d.say("", "sample traffic begins; look at %s/user/ada and %s/metrics, stop with Ctrl-C", d.cfg.Ops, d.cfg.Ops)
	stats := time.NewTicker(statsEvery)
	defer stats.Stop()
	begin := time.Now()
	for next := 0; ; {
		due := begin.Add(script[next].after)
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-stats.C:
			timer.Stop()
			d.sayStats(ctx)
			continue
		case <-timer.C:
		}
		if err := d.play(ctx, script[next]); err != nil && ctx.Err() == nil {
			return err
		}
		if next++; next == len(script) {
			next, begin = 0, begin.Add(round)
		}
	}
}

// register registers the devices, each of which is a path of the receiver.
func (d *Demo) register(ctx context.Context) error {
	for user, names := range devices {
		for _, name := range names {
			body, err := json.Marshal(message{Channel: "webhook", To: d.target() + name})
			if err != nil {
				return fmt.Errorf("encode a sample device: %w", err)
			}
			if _, err := d.call(ctx, http.MethodPut, "/v1/users/"+user+"/devices/"+name, body); err != nil {
				return err
			}
		}
	}
	return nil
}

// target is the receiver's base URL.
func (d *Demo) target() string { return "http://" + d.listener.Addr().String() + "/" }

// play hands one act's notifications to the API, as a producer would.
func (d *Demo) play(ctx context.Context, a act) error {
	d.say("accept", "%-5s %-9s %s", a.user, a.category, a.what)
	for range a.count {
		d.sent++
		to := d.target()
		if devices[a.user] != nil {
			to = ""
		}
		body, err := json.Marshal(message{
			UserID: a.user, Category: a.category, Channel: "webhook", To: to,
			Title: fmt.Sprintf("#%d", d.sent),
		})
		if err != nil {
			return fmt.Errorf("encode a sample notification: %w", err)
		}
		if _, err := d.call(ctx, http.MethodPost, "/v1/notifications", body); err != nil {
			return err
		}
	}
	return nil
}

func (d *Demo) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, d.cfg.API+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request to the API: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if d.cfg.Token != "" {
		request.Header.Set("Authorization", "Bearer "+d.cfg.Token)
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("call the API: %w", err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("read the API's response: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s %s returned %s: %s", method, path, response.Status, reply)
	}
	return reply, nil
}

// receive is the webhook target: it tells what arrives, and how long after the one before.
func (d *Demo) receive(w http.ResponseWriter, r *http.Request) {
	var m message
	if err := json.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(&m); err != nil {
		http.Error(w, "not a notification", http.StatusBadRequest)
		return
	}
	now := time.Now()
	line := m.UserID + "/" + m.Category + r.URL.Path // of one device
	d.mu.Lock()
	before := d.last[line]
	d.last[line] = now
	d.mu.Unlock()
	since := "the first"
	if !before.IsZero() {
		since = fmt.Sprintf("%.3f s after the one before", now.Sub(before).Seconds())
	}
	if device := strings.TrimPrefix(r.URL.Path, "/"); device != "" {
		since = "on the " + device + ", " + since
	}
	d.say("arrive", "%-5s %-9s %-4s %s", m.UserID, m.Category, m.Title, since)
	w.WriteHeader(http.StatusNoContent)
}

func (d *Demo) sayStats(ctx context.Context) {
	body, err := d.call(ctx, http.MethodGet, "/v1/stats", nil)
	if err != nil {
		return
	}
	var stats struct {
		Deferred int64 `json:"deferred"`
		Totals   struct {
			Accepted  int64 `json:"accepted"`
			Delivered int64 `json:"delivered"`
			Pulls     int64 `json:"pulls"`
		} `json:"totals"`
	}
	if err := json.Unmarshal(body, &stats); err != nil || stats.Totals.Delivered == 0 {
		return
	}
	d.say("stats", "%d accepted, %d delivered, %d deferred; %.2f pulls per delivery",
		stats.Totals.Accepted, stats.Totals.Delivered, stats.Deferred,
		float64(stats.Totals.Pulls)/float64(stats.Totals.Delivered))
}

// say writes one line of commentary, with the seconds since the start.
func (d *Demo) say(kind, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.cfg.Out, "%7.3f  %-6s  %s\n", time.Since(d.start).Seconds(), kind, fmt.Sprintf(format, args...))
}
