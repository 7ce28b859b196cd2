package settings

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/feedback"
)

// Role is a part of what a dispatcher does.
type Role string

// The roles.
const (
	RoleAPI    Role = "api"    // the HTTP API
	RoleWorker Role = "worker" // takes notifications off the queue and delivers them
	RoleOps    Role = "ops"    // dashboard, metrics, health, pprof
)

// Resolved are a dispatcher's settings, checked and in the form that they are used in.
type Resolved struct {
	// Setup is which stores it runs on.
	Setup Setup
	// Redis is where Redis is; nil for one within the process.
	Redis *Redis
	// DatabaseURL is the Postgres connection string; empty without Postgres.
	DatabaseURL string
	// Roles are what the process does, without repeats.
	Roles []Role
	// Listen and OpsListen are the addresses of the HTTP API and of the ops pages.
	Listen, OpsListen string
	// AnyPort has it listen on any free port of the host when the port is taken, so that a demo runs beside others.
	AnyPort bool
	// OpsToken is the bearer token of actions on the ops pages; empty for none.
	OpsToken string
	// AllowedHosts are host names under which the ops pages and an API without tokens can be reached, besides
	// localhost.
	AllowedHosts []string
	// Policy is the path of the policy file; empty for the built-in policy.
	Policy string
	// APITokens are the accepted bearer tokens.
	APITokens []string
	// PublicURL is where users' browsers and mail providers reach the API; empty without. Keys sign what e-mails carry.
	PublicURL string
	Keys      *feedback.Keys
	// APILimits bound the requests of each token, APIRouteLimits those of each token to each route.
	APILimits, APIRouteLimits []RequestLimit
	// Concurrency is how many deliveries are in flight, Partitions how many partitions the queue has.
	Concurrency, Partitions int
	// BulkRate is how many notifications a bulk job changes in a second at most.
	BulkRate int
	// DrainTimeout is how long to wait for deliveries in flight when stopping.
	DrainTimeout time.Duration
	// Retention is how long Postgres keeps notifications that have ended.
	Retention time.Duration
	// Templates is a folder of templates; empty without.
	Templates string
	// WebhookAllow are networks that are not public and that webhooks may reach all the same.
	WebhookAllow []netip.Prefix
	// WebhookDisableAfter is how long a registered endpoint may do nothing but fail; 0 for ever.
	WebhookDisableAfter time.Duration
	// Events say where events go.
	Events Events
	// Channels are the settings of all channels, with the credentials from their files.
	Channels Channels
	// Renewed are secrets that are read again when their files change.
	Renewed Renewed
	// LogFormat is text or json, or empty: then it depends on where the log goes.
	LogFormat string
	// LogLevel is the least severe level that is logged.
	LogLevel slog.Level
}

// String shows the settings without their secrets.
func (r *Resolved) String() string {
	return shown("setup", r.Setup, "redis", r.Redis, "database-url", hidden(r.DatabaseURL), "roles", r.Roles,
		"listen", r.Listen, "ops-listen", r.OpsListen, "ops-token", hidden(r.OpsToken),
		"allowed-hosts", r.AllowedHosts, "policy", r.Policy, "api-tokens", len(r.APITokens),
		"public-url", r.PublicURL, "unsubscribe-key", !r.Keys.None(), "api-limits", r.APILimits,
		"api-route-limits", r.APIRouteLimits, "concurrency", r.Concurrency,
		"partitions", r.Partitions, "drain-timeout", r.DrainTimeout, "retention", r.Retention,
		"bulk-rate", r.BulkRate, "templates", r.Templates, "webhook-allow", r.WebhookAllow,
		"webhook-disable-after", r.WebhookDisableAfter, "events-endpoints", len(r.Events.Receivers),
		"events-types", r.Events.Types,
		"channels", r.Channels,
		"log-format", r.LogFormat, "log-level", r.LogLevel)
}

// GoString is String, for %#v.
func (r *Resolved) GoString() string { return r.String() }

// LogValue is String, for slog.
func (r *Resolved) LogValue() slog.Value { return slog.StringValue(r.String()) }

// HasRole reports whether the process has the role.
func (r *Resolved) HasRole(role Role) bool { return slices.Contains(r.Roles, role) }
