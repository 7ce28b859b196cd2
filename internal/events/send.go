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
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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
	// batchSize is how many events are sent at once.
	batchSize = 100
	// shortestWait and longestWait bound how long a receiver is left alone that did not take events.
	shortestWait, longestWait = 5 * time.Second, 10 * time.Minute
	// giveUpAfter is after how long without a success a receiver is disabled.
	giveUpAfter = 24 * time.Hour
	// gatherer stands for whoever gathers events, among the receivers.
	gatherer = "gatherer"
	// forgetEvery is how often old events are forgotten.
	forgetEvery = 10 * time.Minute
)

// SenderConfig says where events go.
type SenderConfig struct {
	// Receivers are their URLs. Keys sign what they get.
	Receivers []string
	Keys      *signing.Ring
	// Gather moves to the log the events that are not there yet, if Gathers reports that there may be some. One process
	// at a time does so. Defaults to nothing.
	Gather  func(ctx context.Context) error
	Gathers func() bool
	// Want notes that there are receivers. It is called every ten minutes. Defaults to nothing.
	Want func(ctx context.Context) error
	// Metrics is where the counter of events is registered. Defaults to nowhere.
	Metrics prometheus.Registerer
	// Lease is how long this process is the one that sends to a receiver, unless it prolongs that. Defaults to 45 s.
	Lease time.Duration
	// LookEvery, ShortestWait and GiveUpAfter default to 2 s, 5 s and 24 h.
	LookEvery, ShortestWait, GiveUpAfter time.Duration
	Log                                  *slog.Logger
}

// Sender sends events to their receivers, to each in order, some at a time: it goes on with the next when the receiver
// took these. One that took none for a day is disabled, until a process that sends to it starts. Of all processes one
// sends to a receiver at a time. When it dies, another takes over: then what it was sending may come again, with the
// same ids.
type Sender struct {
	cfg    SenderConfig
	store  Store
	holder string
	lines  []*line
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
			Help: "Events that this process sent, by outcome: delivered, or failed (tried again).",
		}, []string{"type", "outcome"}),
	}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(s.sent); err != nil {
			return nil, fmt.Errorf("register the metrics of events: %w", err)
		}
	}
	for _, receiver := range cfg.Receivers {
		s.lines = append(s.lines, &line{Sender: s, url: receiver, name: nameOf(receiver)})
	}
	return s, nil
}

// Receiver is one that takes no events.
type Receiver struct {
	// Host is that of its URL, which may hold a secret.
	Host string `json:"host"`
	// Disabled says that it gets nothing any more, Since since when it has taken nothing, Fault why.
	Disabled bool      `json:"disabled"`
	Since    time.Time `json:"since"`
	Fault    string    `json:"fault"`
}

// Troubled lists the receivers that take no events, as this process knows it.
func (s *Sender) Troubled() (all []Receiver) {
	if s == nil {
		return nil
	}
	for _, l := range s.lines {
		if p := l.progress.Load(); p != nil && !p.FailingSince.IsZero() {
			all = append(all, Receiver{hostOf(l.url), p.Disabled, p.FailingSince, p.Fault})
		}
	}
	return all
}

// Run sends until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	defer s.close()
	var all sync.WaitGroup
	all.Go(func() { s.every(ctx, forgetEvery, s.forget) })
	if s.cfg.Want != nil {
		all.Go(func() { s.every(ctx, forgetEvery, s.cfg.Want) })
	}
	if s.cfg.Gather != nil {
		all.Go(func() { s.every(ctx, s.cfg.LookEvery, s.gather) })
	}
	for _, to := range s.lines {
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

// gather moves events to the log, if this process is the one that does.
func (s *Sender) gather(ctx context.Context) error {
	if !s.cfg.Gathers() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(callTimeout, s.cfg.Lease/2))
	defer cancel()
	_, held, err := s.store.Hold(ctx, gatherer, s.holder, s.cfg.Lease)
	if err != nil || !held {
		return err
	}
	return s.cfg.Gather(ctx)
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
	// held says that this process was the one that sends when it last asked, enabled that it has enabled the receiver,
	// progress what it knows of it.
	held, enabled bool
	progress      atomic.Pointer[Progress]
}

// look sends what the receiver has not got yet, if this process is the one that sends to it.
func (l *line) look(ctx context.Context) error {
	if !l.enabled {
		if _, err := bounded(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, l.store.Enable(ctx, l.name)
		}); err != nil {
			return err
		}
		l.enabled = true
	}
	for {
		progress, held, err := l.hold(ctx) // also while it waits: or another process would take over, and not wait
		if err != nil || !held || progress.Disabled || time.Now().Before(l.waitUntil) {
			return err
		}
		batch, err := l.next(ctx, progress)
		if err != nil || len(batch) == 0 {
			return err
		}
		if taken, err := l.send(ctx, batch); err != nil || !taken {
			return err
		}
	}
}

// next reads what the receiver gets next. That it did not take it gets again as it was, with nothing that came since.
func (l *line) next(ctx context.Context, to Progress) ([]Event, error) {
	batch, err := bounded(ctx, func(ctx context.Context) ([]Event, error) {
		return l.store.After(ctx, to.Done, batchSize)
	})
	if to.Failing > to.Done {
		if i := slices.IndexFunc(batch, func(e Event) bool { return e.Sequence > to.Failing }); i > 0 {
			batch = batch[:i]
		}
	}
	return batch, err
}

// hold makes this process the one that sends, or keeps it so.
func (l *line) hold(ctx context.Context) (progress Progress, held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if progress, held, err = l.store.Hold(ctx, l.name, l.holder, l.cfg.Lease); err == nil {
		l.held = held // after an error it may still be, and is released all the same
		l.progress.Store(&progress)
	}
	return progress, held, err
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

// send sends some events, and reports whether the receiver took them.
func (l *line) send(ctx context.Context, batch []Event) (taken bool, err error) {
	fault := l.post(ctx, batch)
	if fault != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	outcome := "delivered"
	if fault != nil {
		outcome = "failed"
	}
	for i := range batch {
		l.sent.WithLabelValues(batch[i].Type, outcome).Inc()
	}
	last := batch[len(batch)-1].Sequence
	if fault != nil {
		return false, l.failed(ctx, last, fault)
	}
	if l.failures > 0 {
		l.cfg.Log.InfoContext(ctx, "a receiver accepts events again", "receiver", hostOf(l.url))
	}
	l.failures, l.waitUntil = 0, time.Time{}
	_, err = bounded(context.WithoutCancel(ctx), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.store.Done(ctx, l.name, last)
	})
	return err == nil, err
}

// failed leaves the receiver alone for a while; for good, when it has taken nothing for a day.
func (l *line) failed(ctx context.Context, last int64, fault error) error {
	progress, err := bounded(ctx, func(ctx context.Context) (Progress, error) {
		return l.store.Failed(ctx, l.name, last, fault.Error(), l.cfg.GiveUpAfter)
	})
	if err != nil {
		return err
	}
	l.progress.Store(&progress)
	l.waitUntil = time.Now().Add(min(l.cfg.ShortestWait<<min(l.failures, 16), longestWait))
	l.failures++
	switch {
	case progress.Disabled:
		l.cfg.Log.ErrorContext(ctx, "disabled a receiver of events that accepted none for a day: restart this process to send to it again, or read GET /v1/events",
			"receiver", hostOf(l.url), "after", progress.Done, "error", fault)
	case l.failures == 1:
		l.cfg.Log.WarnContext(ctx, "a receiver did not accept events; retrying for a day", "receiver", hostOf(l.url),
			"after", progress.Done, "error", fault)
	}
	return nil
}

// post makes the call. Whatever is not 2xx is a fault. No fault shows the URL. The id of the call is that of its first
// event and the number of its last: it is the same when the same events are sent again.
func (l *line) post(ctx context.Context, batch []Event) error {
	payload, err := json.Marshal(map[string][]Event{"events": batch})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(payload))
	if err != nil {
		return errors.New("the receiver is not a URL")
	}
	id := batch[0].ID + "." + strconv.FormatInt(batch[len(batch)-1].Sequence, 10)
	now := time.Now()
	signature, err := l.cfg.Keys.Keys().Sign(id, now, payload)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pacer")
	request.Header.Set("Webhook-Id", id)
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
