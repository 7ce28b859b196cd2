// Package demo is what `dispatcher demo` adds to a running process: a receiver for webhooks, a few users who get more
// notifications than they may, and a running commentary of when each goes out and why.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/receiver"
)

// Config of a Demo.
type Config struct {
	// API is the base URL of the process, such as http://127.0.0.1:8080.
	API string
	// Ops is the base URL of its ops pages.
	Ops string
	// Token is the API's bearer token, if it asks for one.
	Token string
	// Nights are those of the policy in force. Defaults to none.
	Nights []Night
	// Policy is the file of the demo's own policy; empty when it plays under another.
	Policy string
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
	sent int
	held map[string]time.Time // what a night holds, by title: until when
}

// New binds the receiver on a free loopback port.
func New(ctx context.Context, cfg Config) (*Demo, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the demo's receiver: %w", err)
	}
	d := &Demo{
		cfg: cfg, listener: listener, start: time.Now(), held: map[string]time.Time{},
		client: &http.Client{Timeout: 5 * time.Second},
	}
	target, err := receiver.New(receiver.Config{
		By:      func(a *receiver.Arrival) string { return a.UserID + "/" + a.Category + a.Path }, // one device's
		Arrived: d.arrived,
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	d.receiver = &http.Server{Handler: target, ReadHeaderTimeout: 30 * time.Second}
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
	until    time.Time // the end of the night in which it is
}

// script is what happens, again and again, every round.
var script = []act{
	{user: "ada", category: "chat", count: 4, what: "four chat messages at once; the policy allows one per 3 s"},
	{user: "ben", category: "default", count: 3, what: "three at once; at most 10 per minute, 3 s apart"},
	{user: "cleo", category: "chat", count: 1, what: "one chat message: nothing to wait for"},
	{
		after: 4 * time.Second, user: "ada", category: "security", count: 1,
		what: "a security alert: it bypasses the throttle",
	},
	{after: 7 * time.Second, user: "cleo", category: "chat", count: 2, what: "two more chat messages"},
	{
		after: 11 * time.Second, user: "dora", category: "chat", count: 2,
		what: "two without a target: each goes to her phone and to her laptop, and counts once",
	},
}

const (
	round      = 20 * time.Second
	statsEvery = 5 * time.Second
)

// Run plays the script and the nights until ctx ends.
func (d *Demo) Run(ctx context.Context) error {
	var receiving sync.WaitGroup
	receiving.Go(func() { _ = d.receiver.Serve(d.listener) }) // ends when it is closed
	defer func() {
		_ = d.receiver.Close() // nothing of the demo outlives it
		receiving.Wait()
		d.client.CloseIdleConnections()
	}()
	d.say("", "the dashboard is at %s; stop with Ctrl-C", d.cfg.Ops)
	if err := d.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it is to end
		}
		return err
	}
	if d.cfg.Policy != "" {
		d.say("", "the policy is %s; edit it, and the change takes effect at once", d.cfg.Policy)
	}
	d.say("", "sample traffic begins; in another terminal: dispatcher user ada --ops-listen %s", d.cfg.Ops)
	ctx, stop := context.WithCancelCause(ctx)
	var playing sync.WaitGroup
	playing.Go(func() {
		if err := d.playNights(ctx); err != nil {
			stop(err)
		}
	})
	err := d.playDays(ctx)
	stop(nil)
	playing.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// playDays plays the script until ctx ends.
func (d *Demo) playDays(ctx context.Context) error {
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

// play tells of an act, and hands its notifications to the API.
func (d *Demo) play(ctx context.Context, a act) error {
	d.say("accept", "%-5s %-9s %s", a.user, a.category, a.what)
	return d.send(ctx, a)
}

// send hands one act's notifications to the API, as a producer would.
func (d *Demo) send(ctx context.Context, a act) error {
	for range a.count {
		to := d.target()
		if devices[a.user] != nil {
			to = ""
		}
		body, err := json.Marshal(message{
			UserID: a.user, Category: a.category, Channel: "webhook", To: to, Title: d.nextTitle(a),
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

// nextTitle numbers the notifications, and notes what a night holds.
func (d *Demo) nextTitle(a act) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent++
	title := fmt.Sprintf("#%d", d.sent)
	if !a.until.IsZero() {
		d.held[title] = a.until
	}
	return title
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

// arrived reports what reached the webhook target, and how long after the one before.
func (d *Demo) arrived(a receiver.Arrival) {
	since := "the first"
	if a.Gap != nil {
		since = fmt.Sprintf("%.3f s after the one before", a.Gap.Seconds())
	}
	if night := d.sinceNight(a); night != "" {
		since = night
	}
	if device := strings.TrimPrefix(a.Path, "/"); device != "" {
		since = "on the " + device + ", " + since
	}
	d.say("arrive", "%-5s %-9s %-4s %s", a.UserID, a.Category, a.Title, since)
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
