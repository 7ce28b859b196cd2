package events

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/signing"
)

const (
	// lookEvery is how often a process looks for events, and whether it is the one that sends them.
	lookEvery = 2 * time.Second
	// lease is how long a process is the one that sends to a receiver. It is longer than a call and what is noted of it
	// may take together.
	lease = 45 * time.Second
	// callTimeout bounds a call, storeTimeout what the store is asked.
	callTimeout, storeTimeout = 15 * time.Second, 5 * time.Second
	// page is how many events are read at once.
	page = 100
	// shortestWait and longestWait bound how long a receiver is left alone that did not take an event.
	shortestWait, longestWait = 5 * time.Second, 10 * time.Minute
	// giveUpAfter is how long one event is tried.
	giveUpAfter = 24 * time.Hour
	// forgetEvery is how often old events are forgotten.
	forgetEvery = 10 * time.Minute
)

// SenderConfig says where events go.
type SenderConfig struct {
	// Receivers are their URLs. Keys sign what they get.
	Receivers []string
	Keys      *signing.Ring
	// Metrics is where the counter of events is registered. Defaults to nowhere.
	Metrics prometheus.Registerer
	// Lease is how long this process is the one that sends to a receiver, unless it prolongs that. Defaults to 45 s.
	Lease time.Duration
	// LookEvery, ShortestWait and GiveUpAfter default to 2 s, 5 s and 24 h.
	LookEvery, ShortestWait, GiveUpAfter time.Duration
	Log                                  *slog.Logger
}

// Sender sends events to their receivers, to each in order, one after the other: it goes on with the next when a
// receiver took one, or did not for a day. Of all processes one sends to a receiver at a time. When it dies, another
// takes over: then the event that it was sending may come again, with the same id.
type Sender struct {
	cfg    SenderConfig
	store  Store
	holder string
	client *http.Client
	close  func()
	sent   *prometheus.CounterVec
}

// anywhere are all networks: operators name the receivers, and a receiver is mostly one of their own machines.
var anywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// NewSender makes a sender. It also forgets old events, for which it needs no receivers.
func NewSender(store Store, cfg SenderConfig) (*Sender, error) {
	cfg.LookEvery, cfg.ShortestWait = cmp.Or(cfg.LookEvery, lookEvery), cmp.Or(cfg.ShortestWait, shortestWait)
	cfg.Lease, cfg.GiveUpAfter = cmp.Or(cfg.Lease, lease), cmp.Or(cfg.GiveUpAfter, giveUpAfter)
	client, err := httpsend.NewGuarded(httpsend.GuardedConfig{Allow: anywhere, Timeout: callTimeout, Idle: 1})
	if err != nil {
		return nil, err
	}
	s := &Sender{
		cfg: cfg, store: store, holder: rand.Text(), client: client.Client, close: client.Close,
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pacer_events_total",
			Help: "Events that this process sent, by outcome: delivered, failed (tried again), given_up.",
		}, []string{"type", "outcome"}),
	}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(s.sent); err != nil {
			return nil, fmt.Errorf("register the metrics of events: %w", err)
		}
	}
	return s, nil
}

// Run sends until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	defer s.close()
	var all sync.WaitGroup
	all.Go(func() { s.every(ctx, forgetEvery, s.forget) })
	for _, receiver := range s.cfg.Receivers {
		to := &line{Sender: s, url: receiver, name: nameOf(receiver)}
		all.Go(func() {
			s.every(ctx, s.cfg.LookEvery, to.look)
			to.release(context.WithoutCancel(ctx))
		})
	}
	all.Wait()
}

// every does something now and then until ctx ends.
func (s *Sender) every(ctx context.Context, interval time.Duration, do func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "could not send or delete events; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// forget removes old events.
func (s *Sender) forget(ctx context.Context) error {
	for {
		more, err := bounded(ctx, s.store.Forget)
		if err != nil || !more {
			return err
		}
	}
}

// bounded asks the store, and does not wait for long.
func bounded[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return ask(ctx)
}

// nameOf stands for a receiver in the store: its URL may hold a secret.
func nameOf(receiver string) string {
	sum := sha256.Sum256([]byte(receiver))
	return hex.EncodeToString(sum[:16])
}

// hostOf is what may be shown of a receiver.
func hostOf(receiver string) string {
	u, err := url.Parse(receiver)
	if err != nil {
		return ""
	}
	return u.Host
}

// line is what one receiver is sent by this process.
type line struct {
	*Sender
	url, name string
	// waitUntil is until when it is left alone, failures counts those in a row.
	waitUntil time.Time
	failures  int
	// held says that this process was the one that sends when it last asked.
	held bool
}

// look sends what the receiver has not got yet, if this process is the one that sends to it.
func (l *line) look(ctx context.Context) error {
	if time.Now().Before(l.waitUntil) {
		_, _, err := l.hold(ctx) // or another process would take over, and not wait
		return err
	}
	progress, held, err := l.hold(ctx)
	if err != nil || !held {
		return err
	}
	all, err := bounded(ctx, func(ctx context.Context) ([]Event, error) {
		return l.store.After(ctx, progress.Done, page)
	})
	if err != nil {
		return err
	}
	for i, e := range all {
		if i > 0 {
			if _, held, err := l.hold(ctx); err != nil || !held {
				return err
			}
		}
		if next, err := l.send(ctx, e); err != nil || !next {
			return err
		}
	}
	return nil
}

// hold makes this process the one that sends, or keeps it so.
func (l *line) hold(ctx context.Context) (progress Progress, held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	progress, l.held, err = l.store.Hold(ctx, l.name, l.holder, l.cfg.Lease)
	return progress, l.held, err
}

// release lets another process send at once, when this one stops.
func (l *line) release(ctx context.Context) {
	if !l.held {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	_, _, _ = l.store.Hold(ctx, l.name, l.holder, 0) // or it ends by itself
}

// send sends one event, and reports whether it is the next one's turn.
func (l *line) send(ctx context.Context, e Event) (next bool, err error) {
	fault := l.post(ctx, e)
	if fault != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	outcome := "delivered"
	if fault != nil {
		outcome, err = l.failed(ctx, e, fault)
		if err != nil || outcome == "failed" {
			return false, err
		}
	}
	l.sent.WithLabelValues(string(e.Type), outcome).Inc()
	l.failures, l.waitUntil = 0, time.Time{}
	_, err = bounded(context.WithoutCancel(ctx), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.store.Done(ctx, l.name, e.Sequence)
	})
	return err == nil, err
}

// failed leaves the receiver alone for a while, and reports whether the event is given up.
func (l *line) failed(ctx context.Context, e Event, fault error) (outcome string, err error) {
	progress, err := bounded(ctx, func(ctx context.Context) (Progress, error) {
		return l.store.Failed(ctx, l.name, e.Sequence)
	})
	if err != nil {
		return "", err
	}
	if !progress.FailingSince.IsZero() && progress.Now.Sub(progress.FailingSince) >= l.cfg.GiveUpAfter {
		l.cfg.Log.ErrorContext(ctx, "gave up on an event: its receiver did not accept it; GET /v1/events still lists it",
			"event", e.ID, "type", e.Type, "receiver", hostOf(l.url), "error", fault)
		return "given_up", nil
	}
	l.sent.WithLabelValues(string(e.Type), "failed").Inc()
	wait := min(l.cfg.ShortestWait<<min(l.failures, 16), longestWait)
	l.failures++
	l.waitUntil = time.Now().Add(wait)
	if l.failures == 1 {
		l.cfg.Log.WarnContext(ctx, "a receiver did not accept an event; retrying for a day", "event", e.ID,
			"type", e.Type, "receiver", hostOf(l.url), "error", fault)
	}
	return "failed", nil
}

// post makes the call. Whatever is not 2xx is a fault. No fault shows the URL.
func (l *line) post(ctx context.Context, e Event) error {
	payload, err := json.Marshal(e)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(payload))
	if err != nil {
		return errors.New("the receiver is not a URL")
	}
	now := time.Now()
	signature, err := l.cfg.Keys.Keys().Sign(e.ID, now, payload)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pacer")
	request.Header.Set("Webhook-Id", e.ID)
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	if signature != "" {
		request.Header.Set("Webhook-Signature", signature)
	}
	trace := &httpsend.Trace{}
	response, err := l.client.Do(request.WithContext(trace.Attach(ctx)))
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 4<<10)) // only the status counts
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("it responded with %d", response.StatusCode)
	}
	return nil
}
