package endpoints

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/signing"
)

const (
	// lookEvery is how often a process looks for changes. A look reads one change.
	lookEvery = 2 * time.Second
	// lookTimeout bounds one look, and the writing of what was seen of one endpoint.
	lookTimeout = 5 * time.Second
	// changesRead is how many endpoints a statement reads.
	changesRead = 500
	// noteEvery is how often a process notes that an endpoint fails, noteSuccessEvery that all is well.
	noteEvery, noteSuccessEvery = time.Minute, time.Hour
	// notesLeast is how often it notes the former at least in the time after which the endpoint is disabled.
	notesLeast = 10
)

// DirectoryConfig says how a [Directory] works.
type DirectoryConfig struct {
	// DisableAfter is how long an endpoint may do nothing but fail. 0 means that failing never disables one.
	DisableAfter time.Duration
	// Now is the time. Defaults to [time.Now].
	Now func() time.Time
	Log *slog.Logger
}

// Directory is what a process knows of the endpoints, by URL. It looks for changes every two seconds. While the store
// can't be read, what was known stays in force.
type Directory struct {
	cfg       DirectoryConfig
	store     *Store
	noteEvery time.Duration

	// empty says that there is nothing to look up, which costs a delivery nothing.
	empty atomic.Bool
	mu    sync.RWMutex
	byURL map[string]*entry
	byID  map[string]*entry
	// read is how far the changes were read, round how often they were read from the beginning.
	read  record.Cursor
	round int
	// storeTime was the store's time at the moment at of this process.
	storeTime, at time.Time
}

// entry is one endpoint, and what this process saw of it and has not noted yet.
type entry struct {
	mu       sync.Mutex
	endpoint Endpoint
	url      string
	round    int // in which it was read last
	keys     []datedKey
	header   http.Header
	seen     Observation
	// notedAt and successAt are when this process last noted something, and a success.
	notedAt, successAt time.Time
}

// datedKey signs until then; always, when until is zero.
type datedKey struct {
	signing.Key
	until time.Time
}

// NewDirectory makes one that knows nothing. Follow gives it a store.
func NewDirectory(cfg DirectoryConfig) *Directory {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	d := &Directory{cfg: cfg, noteEvery: noteEvery, byURL: map[string]*entry{}, byID: map[string]*entry{}}
	if cfg.DisableAfter > 0 {
		d.noteEvery = min(noteEvery, cfg.DisableAfter/notesLeast)
	}
	d.empty.Store(true)
	return d
}

// Follow has it know what is in a store from now on, and reads that. It is called once, before anything is sent.
func (d *Directory) Follow(ctx context.Context, store *Store) error {
	d.store = store
	return d.Refresh(ctx)
}

// Run looks for changes, and notes what was seen, until ctx ends. Then it notes the failures that are left.
func (d *Directory) Run(ctx context.Context) {
	ticker := beat.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			d.stop(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
			ticker.Next()
		}
		d.look(ctx)
		d.note(ctx, false)
	}
}

// stop notes the failures that are left.
func (d *Directory) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	d.note(ctx, true)
}

// look is Refresh, bounded.
func (d *Directory) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := d.Refresh(ctx); err != nil && ctx.Err() == nil {
		d.cfg.Log.WarnContext(ctx, "could not check for changed webhook endpoints; keeping the known ones",
			"error", err)
	}
}

// Refresh reads what has changed.
func (d *Directory) Refresh(ctx context.Context) error {
	now, err := d.store.kind.Store.Now(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.storeTime, d.at = now, d.cfg.Now()
	d.mu.Unlock()
	for step := record.More; step == record.More || step == record.Again; {
		page, err := d.store.kind.Store.Changes(ctx, d.store.kind.Name, d.read.From, changesRead)
		if err == nil {
			step, err = d.take(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take takes in a page of changes. Once everything was read from the beginning, it forgets what was not there.
func (d *Directory) take(page []record.Record) (record.Step, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.empty.Store(len(d.byURL) == 0) }()
	fresh, step := record.Next(&d.read, page, len(page) == changesRead, record.Name)
	for _, r := range fresh {
		if r.Body == nil {
			d.forget(r.Key)
			continue
		}
		e, err := d.store.kind.Read(r)
		if err != nil {
			d.read = record.Cursor{}
			return step, err
		}
		d.put(e)
	}
	switch step {
	case record.Again:
		d.round++
	case record.Complete:
		for id, e := range d.byID {
			if e.round != d.round {
				d.forget(id)
			}
		}
	case record.More, record.Read:
	}
	return step, nil
}

// put takes in an endpoint as it is now, under the lock.
func (d *Directory) put(now Endpoint) {
	e := d.byID[now.ID]
	if e == nil {
		e = &entry{}
	} else if d.byURL[e.url] == e {
		delete(d.byURL, e.url)
	}
	e.set(now, d.cfg.Log)
	e.round = d.round
	d.byID[now.ID], d.byURL[e.url] = e, e
}

// forget forgets an endpoint, under the lock.
func (d *Directory) forget(id string) {
	e := d.byID[id]
	delete(d.byID, id)
	if e != nil && d.byURL[e.url] == e { // else another endpoint has taken the URL
		delete(d.byURL, e.url)
	}
}

// set replaces what is known of an endpoint. The url is the directory's, under its lock.
func (e *entry) set(now Endpoint, log *slog.Logger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endpoint, e.url, e.header, e.keys = now, Normal(now.URL), now.Header(), nil
	for i, old := range append([]OldSecret{{Secret: now.Secret}}, now.Old...) {
		key, err := signing.Parse(old.Secret.Reveal())
		if err != nil {
			log.Error("can't use a secret of a webhook endpoint; calls are not signed with it", "endpoint", now.ID, "number", i)
			continue
		}
		e.keys = append(e.keys, datedKey{key, old.Until})
	}
}

// find returns the endpoint of a URL; nil when it is not registered.
func (d *Directory) find(url string) *entry {
	if d.empty.Load() {
		return nil
	}
	normal := Normal(url)
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byURL[normal]
}

// now is the store's time, as far as this process knows it.
func (d *Directory) now() time.Time {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.storeTime.Add(d.cfg.Now().Sub(d.at))
}

// Registered returns what signs calls to a URL, and the headers to send with them; false when it is not registered.
func (d *Directory) Registered(url string) (signing.Keys, http.Header, bool) {
	e := d.find(url)
	if e == nil {
		return nil, nil, false
	}
	now := d.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	keys := make(signing.Keys, 0, len(e.keys))
	for _, key := range e.keys {
		if key.until.IsZero() || key.until.After(now) {
			keys = append(keys, key.Key)
		}
	}
	return keys, e.header, true
}

// Words say how the endpoint of a URL does; "" for one that does well, or is not registered.
func (d *Directory) Words(url string) string {
	e := d.find(url)
	if e == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if words := e.endpoint.Words(); words != "" {
		return "webhook endpoint " + e.endpoint.ID + " " + words
	}
	return ""
}

// Troubled lists the endpoints that fail or are disabled, by id.
func (d *Directory) Troubled() []Endpoint {
	var all []Endpoint
	for _, e := range d.all() {
		e.mu.Lock()
		if e.endpoint.State() != StateOK {
			all = append(all, e.endpoint)
		}
		e.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Endpoint) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func (d *Directory) all() []*entry {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := make([]*entry, 0, len(d.byID))
	for _, e := range d.byID {
		all = append(all, e)
	}
	return all
}

// states is the description of the metric.
var states = prometheus.NewDesc("pacer_webhook_endpoints",
	"Registered webhook endpoints of the deployment by state: ok, failing, disabled.", []string{"state"}, nil)

// Describe implements [prometheus.Collector].
func (d *Directory) Describe(to chan<- *prometheus.Desc) { to <- states }

// Collect implements [prometheus.Collector].
func (d *Directory) Collect(to chan<- prometheus.Metric) {
	counts := map[string]int{StateOK: 0, StateFailing: 0, StateDisabled: 0}
	for _, e := range d.all() {
		e.mu.Lock()
		counts[e.endpoint.State()]++
		e.mu.Unlock()
	}
	for state, n := range counts {
		to <- prometheus.MustNewConstMetric(states, prometheus.GaugeValue, float64(n), state)
	}
}

// Watch puts before a channel's sender what the endpoints say. For other channels than webhooks it is the sender
// itself.
func (d *Directory) Watch(channel notification.Channel, sender push.Sender) push.Sender {
	if channel.Kind() != notification.ChannelWebhook {
		return sender
	}
	return &watched{Sender: sender, directory: d}
}
