// Package httpapi is pacer's HTTP API. Its clients send, look up and cancel notifications, ask where a user stands with
// the limits, and read the counts. It describes itself in an OpenAPI document. Errors are RFC 9457 problems.
package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/feedback"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/wire"
)

// Intake accepts notifications.
type Intake interface {
	Accept(ctx context.Context, batch []intake.Request) ([]intake.Result, error)
}

// Store cancels and changes notifications, and counts them.
type Store interface {
	Cancel(ctx context.Context, id string) error
	CancelGroup(ctx context.Context, userID, groupKey string) (int, error)
	Change(ctx context.Context, id string, c notification.Change) error
	Stats(ctx context.Context) (stats.Counts, error)
	desk.HistoryStore
}

// Desk looks up notifications and users.
type Desk interface {
	View(ctx context.Context, id string) (*notification.View, error)
	User(ctx context.Context, userID string) (*desk.User, error)
}

// Throttle knows the users' windows.
type Throttle interface {
	// Window reports where a user stands in a category. It changes nothing.
	Window(ctx context.Context, userID, category string) (Window, error)
	// Clear empties the windows of a user in a category.
	Clear(ctx context.Context, userID, category string) error
}

// Config of the API.
type Config struct {
	Intake   Intake
	Store    Store
	Throttle Throttle
	// Desk looks up notifications and users.
	Desk Desk
	// Processes lists the processes of the deployment.
	Processes func(context.Context) ([]stats.Process, error)
	// List returns a page of notifications.
	List func(context.Context, notification.Filter) (*notification.Page, error)
	// Users keeps the users' preferences. Nil means that the store has none.
	Users Users
	// Devices keeps users' devices.
	Devices Devices
	// Inbox takes what comes back about e-mails. Nil means that nothing can be recognized.
	Inbox Inbox
	// Endpoints keeps the webhook endpoints, Events what happened.
	Endpoints Endpoints
	Events    Events
	// CheckCategory refuses a category that the policy does not name.
	CheckCategory func(string) error
	// Names are the names that a listing may be filtered by.
	Names func() desk.Names
	// Tokens are the bearer tokens. Defaults to none: no request needs a token. Whether there are some is asked once.
	Tokens *secret.Tokens
	// Host reports whether the API serves requests under a Host. It is asked only where there are no tokens, since
	// other sites' pages have no token. Defaults to every host.
	Host func(string) bool
	// CallerLimit wraps everything that needs a token. It learns from [TokenOf] and [RouteOf] who asks for what.
	// Defaults to no limit.
	CallerLimit func(http.Handler) http.Handler
	// Metrics is where the API registers its metrics. Nil means that it has none.
	Metrics prometheus.Registerer
	// Channels are all channels that pacer has, configured or not.
	Channels []Channel
	// PublicKey is what a page needs to subscribe a browser for a channel; empty where there is nothing to subscribe
	// to. Defaults to none.
	PublicKey func(channel notification.Channel) string
	// Version of the program, for the document.
	Version string
	Log     *slog.Logger
}

// Channel is a channel as the API knows it.
type Channel struct {
	Name notification.Channel
	// OwnFormat describes the JSON object that a notification may have under the channel's name. Empty means that it
	// may have none.
	OwnFormat string
}

// ReadTimeout is how long a client may take over the header of a request, and again over its body.
const ReadTimeout = 30 * time.Second

const (
	// maxBulkBody and maxBulkItems bound a batch.
	maxBulkBody  = 16 << 20
	maxBulkItems = 10_000
	// storeTimeout bounds the store's work for one request.
	storeTimeout = 3 * time.Second
	// bulkTimeout bounds the acceptance of a whole batch.
	bulkTimeout = 60 * time.Second
)

// bodyUpTo is the MaxBodyBytes of an operation whose body may have so many bytes: the framework refuses a body
// that has exactly MaxBodyBytes.
func bodyUpTo(bytes int64) int64 { return bytes + 1 }

// api implements the operations.
type api struct {
	cfg     Config
	own     []string // the names of the channels with a format of their own
	bounces *prometheus.CounterVec
	// validate says which fields of a document of a batch are wrong.
	validate func(document any) error
	// preferencesTurn is taken by the batch of preferences that is being written.
	preferencesTurn chan struct{}
}

// New makes the handler of the API.
func New(cfg Config) (http.Handler, error) {
	if cfg.CallerLimit == nil {
		cfg.CallerLimit = func(next http.Handler) http.Handler { return next }
	}
	if cfg.PublicKey == nil {
		cfg.PublicKey = func(notification.Channel) string { return "" }
	}
	bounces, err := countBounces(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	a := &api{cfg: cfg, bounces: bounces, preferencesTurn: make(chan struct{}, 1)}
	for _, c := range cfg.Channels {
		if c.OwnFormat != "" {
			a.own = append(a.own, string(c.Name))
		}
	}
	operations := http.NewServeMux()
	document := a.register(operations)
	describe(document)
	examples, err := readExamples()
	if err != nil {
		return nil, err
	}
	if err := addExamples(document, examples); err != nil {
		return nil, err
	}
	if err := addProblems(document); err != nil {
		return nil, err
	}
	spec, err := document.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	page, err := documentPage(document, examples)
	if err != nil {
		return nil, err
	}
	front := http.NewServeMux()
	front.HandleFunc("GET /openapi.json", serveBytes("application/json", spec))
	front.HandleFunc("GET /docs", serveBytes("text/html; charset=utf-8", page))
	measure := func(next http.Handler) http.Handler { return next }
	if cfg.Metrics != nil {
		if measure, err = measured(cfg.Metrics); err != nil {
			return nil, err
		}
	}
	front.Handle(http.MethodGet+" "+keyPath, operations) // it is public, and for browsers
	front.Handle("/", withRoute(operations, measure(a.authenticate(cfg.CallerLimit(withFallback(operations))))))
	all := http.NewServeMux()
	all.Handle("/", a.apartFromPages(front))
	// Its tokens are the permission, under whatever name the public reaches it.
	all.Handle(feedback.Path, withRoute(operations, measure(withFallback(operations))))
	return all, nil
}

// caseCounts is done once: the framework has this setting for the whole process.
var caseCounts = sync.OnceFunc(func() { huma.ValidateStrictCasing = true })

// unmarshal reads a body. The framework has it read twice, and responds with 400 to what is wrong the first time, when
// it validates it, and with 422 to what is wrong the second time.
func unmarshal(raw []byte, into any) error {
	err := wire.Unmarshal(raw, into)
	if _, validates := into.(*any); validates && len(notification.FieldErrors(err)) > 0 {
		return json.Unmarshal(raw, into)
	}
	return err
}

// register puts the operations on the mux and returns the document that describes them.
func (a *api) register(mux *http.ServeMux) *huma.OpenAPI {
	config := huma.DefaultConfig("pacer", a.cfg.Version)
	config.Info.Description = "Sends notifications, throttled per user. Errors are RFC 9457 problems. Unknown fields " +
		"are refused. Without tokens, the API serves requests only under this machine's names (else 421), and none from " +
		"other sites' pages (403)."
	// This package serves the document and its page itself: without a token, and without files from other hosts.
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema in bodies
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Security = []map[string][]string{{"token": {}}}
	config.Transformers = append(config.Transformers, sayFaults(config.Components.Schemas))
	strictly := huma.DefaultJSONFormat
	strictly.Unmarshal = unmarshal
	config.Formats = map[string]huma.Format{mediaJSON: strictly, "json": strictly}
	caseCounts()
	h := humago.New(mux, config)
	h.UseMiddleware(refuseUnknownParameters(h))
	a.registerNotifications(h)
	a.registerList(h)
	a.registerBulk(h)
	a.registerUsers(h)
	deviceAPI{a}.register(h)
	preferenceAPI{a}.register(h)
	a.registerStats(h)
	a.registerKeys(h)
	a.registerUnsubscribe(h, mux)
	a.registerBounces(h)
	endpointAPI{a}.register(h)
	a.registerEvents(h)
	a.describeChannels(h.OpenAPI().Components.Schemas)
	return h.OpenAPI()
}

// describeChannels puts the channels' names and the objects in their own formats into the document.
func (a *api) describeChannels(schemas huma.Registry) {
	accepted := schemas.SchemaFromRef(schemas.Schema(reflect.TypeFor[wire.Input](), true, "").Ref)
	shown := schemas.SchemaFromRef(schemas.Schema(reflect.TypeFor[View](), true, "").Ref)
	for _, c := range a.cfg.Channels {
		name := string(c.Name)
		accepted.Properties["channel"].Enum = append(accepted.Properties["channel"].Enum, name)
		if c.OwnFormat != "" {
			accepted.Properties[name] = &huma.Schema{Description: c.OwnFormat}
			shown.Properties[name] = &huma.Schema{}
		}
	}
}

// Server makes the HTTP server for the handler, with limits for slow and greedy clients.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:        handler,
		ReadTimeout:    ReadTimeout,
		WriteTimeout:   ReadTimeout + bulkTimeout + 15*time.Second, // the body, the batch, and the response
		IdleTimeout:    60 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
}

func serveBytes(contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", contentType)
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		header.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body) // an error means that the client is gone
	}
}
