// Package settings reads the settings of the two programs. A flag wins over an environment variable, which wins over
// the YAML file, which wins over the default.
//
// Server and Client are the settings. A program embeds one of them in its command line, which NewParser builds and
// Parse reads. Server.Resolve checks the settings and converts them to the form that the rest of pacer uses. A setting
// that is refused is a *UsageError, and the program exits with code 2.
//
// Every flag --foo-bar has the environment variable PACER_FOO_BAR, except the two connection strings, which keep their
// usual names. A variable that is set to nothing counts as not set. In the file a setting has the name of its flag,
// with dashes or underscores. Every secret may be file:PATH, and is read again when that file changes.
package settings

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// File is the flag that names the settings file. A command without it reads no file.
type File struct {
	// Config is the path of a YAML file with settings. Defaults to none.
	Config string `name:"config" placeholder:"FILE" help:"YAML file with settings; its keys are the names of the flags."`
}

// Stores are the two connection strings. Which of them are set decides the set-up; see [Stores.Setup].
type Stores struct {
	// RedisURL is the Redis of queue and limiter. Defaults to a Redis within the process.
	RedisURL string `name:"redis-url" env:"REDIS_URL" placeholder:"URL" json:"-" help:"Redis: redis://, rediss://, unix://, redis+cluster://h1:p1,h2:p2 or redis+sentinel://h1:p1,h2:p2/MASTER; or file:PATH. Default: ${without_redis_url}."`
	// DatabaseURL is the Postgres that is the store of notifications. Defaults to none: Redis is the store.
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" placeholder:"URL" json:"-" help:"Postgres, as the store of notifications: postgres://... or file:PATH. Default: Redis is the store."`
}

// Logging says how the program logs.
type Logging struct {
	// LogFormat is text or json. Defaults to text on a terminal, else json.
	LogFormat string `name:"log-format" predictor:"formats" placeholder:"FORMAT" help:"text or json. Default: text on a terminal, else json."`
	// LogLevel is debug, info, warn or error. Defaults to info.
	LogLevel string `name:"log-level" predictor:"levels" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error. Default: info."`
}

// Server are the settings of a running dispatcher.
type Server struct {
	File
	Stores
	Logging
	Channels
	Webhooks

	// Roles are what the process does: api, worker, ops. Defaults to all.
	Roles []string `name:"roles" predictor:"roles" default:"api,worker,ops" placeholder:"ROLE" help:"What this process does: api, worker, ops. Default: all."`
	// Listen is the address of the HTTP API. Defaults to 127.0.0.1:8080.
	Listen string `name:"listen" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the HTTP API. Default: ${default}."`
	// OpsListen is the address of dashboard, metrics, health and pprof. Defaults to 127.0.0.1:8081.
	OpsListen string `name:"ops-listen" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address of dashboard, metrics, health and pprof. Default: ${default}."`
	// OpsToken is the bearer token of actions on the ops pages. Defaults to none: then actions only work on a loopback
	// address.
	OpsToken string `name:"ops-token" placeholder:"TOKEN|file:PATH" json:"-" help:"Bearer token for actions on the ops pages, such as pausing. Without it, actions only work on a loopback address."`
	// AllowedHosts are host names under which the ops pages and an API without tokens can be reached, besides localhost
	// and IP addresses. Defaults to none.
	AllowedHosts []string `name:"allowed-hosts" placeholder:"NAME" help:"Host names, besides localhost and IP addresses, under which the ops pages and an API without tokens can be reached: ops.example.com, *.example.com, or * for all."`
	// Policy is the path of the policy file. Defaults to the built-in policy.
	Policy string `name:"policy" placeholder:"FILE" help:"Policy file, reloaded on SIGHUP and on change. Default: built-in."`
	// APITokens are the bearer tokens of the HTTP API. Defaults to none: then the API only starts on a loopback
	// address.
	APITokens []string `name:"api-tokens" placeholder:"TOKEN|file:PATH" json:"-" help:"Bearer tokens of the HTTP API; a file holds one or several. Without any, the API only starts on a loopback address."`
	// PublicURL is where users' browsers and mail providers reach the API. With it, e-mails have links to unsubscribe.
	// Defaults to none.
	PublicURL string `name:"public-url" placeholder:"URL" help:"Where users' browsers and mail providers reach /v1/unsubscribe/ of the API. With it, e-mails have links to unsubscribe. Needs --unsubscribe-key, and --redis-url or --database-url. Default: none."`
	// UnsubscribeKey signs the links and the bounce address of e-mails. Several keys, with commas between them: the
	// first signs, all hold. Defaults to none.
	UnsubscribeKey []string `name:"unsubscribe-key" placeholder:"KEY|file:PATH" json:"-" help:"Key of at least 32 characters that signs the links to unsubscribe and the bounce address of e-mails. While you replace it, give both: NEW,OLD."`
	// APILimits bound the requests of each token, over all processes. They have the form 100/1s. Without tokens each
	// address has these limits. Defaults to none.
	APILimits []string `name:"api-limits" placeholder:"N/DURATION" help:"Limits on the requests of each token, such as 100/1s, over all processes. Several apply together. Default: none."`
	// APIRouteLimits bound the requests of each token to each route, in the same way. Defaults to none.
	APIRouteLimits []string `name:"api-route-limits" placeholder:"N/DURATION" help:"Limits on the requests of each token to each route, such as 20/1s. Default: none."`
	// Concurrency is how many deliveries are in flight per process. Defaults to 256.
	Concurrency int `name:"concurrency" default:"256" placeholder:"N" help:"Deliveries in flight per process. Default: ${default}."`
	// Partitions is how many partitions the queue has, the same number in the whole deployment. Defaults to 16.
	Partitions int `name:"partitions" default:"16" placeholder:"N" help:"Partitions of the queue, the same number in the whole deployment. Default: ${default}."`
	// DrainTimeout is how long a stopping process waits for deliveries in flight. Defaults to 20 seconds.
	DrainTimeout time.Duration `name:"drain-timeout" default:"20s" placeholder:"DURATION" help:"How long a process waits for deliveries in flight after SIGTERM. Default: ${default}."`
	// Retention is how long Postgres keeps notifications that have ended. Defaults to 30 days.
	Retention time.Duration `name:"retention" default:"720h" placeholder:"DURATION" help:"How long Postgres keeps notifications that have ended; one that a limit still counts stays longer. Default: 30 days."`
	// BulkRate is how many notifications a bulk job retries, cancels or moves in a second at most. Defaults to 200.
	BulkRate int `name:"bulk-rate" default:"200" placeholder:"N" help:"How many notifications a bulk job retries, cancels or moves per second. Default: ${default}."`
	// Templates is a folder of templates for contents. Defaults to none.
	Templates string `name:"templates" placeholder:"FOLDER" help:"Folder of content templates. Default: none."`
	// WebhookAllow are networks that are not public and that webhooks may reach all the same. Defaults to none.
	WebhookAllow []string `name:"webhook-allow" placeholder:"CIDR" help:"Networks that webhooks may call although they are not public, such as 10.0.0.0/8. Default: none."`
}

// Client says where a producer reaches pacer over HTTP, when it has no connection strings.
type Client struct {
	// Server is the base URL of the HTTP API. Defaults to http://127.0.0.1:8080.
	Server string `name:"server" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Base URL of the HTTP API. Default: ${default}."`
	// Token is the bearer token, or file:PATH. Defaults to none.
	Token string `name:"token" placeholder:"TOKEN" json:"-" help:"Bearer token of the HTTP API, or file:PATH."`
}

// Setup is which stores a deployment runs on.
type Setup string

// The four set-ups.
const (
	// SetupEmbedded keeps everything in a Redis within the process: nothing survives a restart.
	SetupEmbedded Setup = "embedded"
	// SetupRedis keeps everything in Redis, as durable as that is configured.
	SetupRedis Setup = "redis"
	// SetupDurable keeps notifications in Postgres. All of Redis may be lost, and is rebuilt.
	SetupDurable Setup = "durable"
	// SetupDurableOneNode keeps notifications in Postgres. A Redis within the process is rebuilt at start.
	SetupDurableOneNode Setup = "durable, one node"
)

// Setup follows from which connection strings are set.
func (s Stores) Setup() Setup {
	switch {
	case s.RedisURL != "" && s.DatabaseURL != "":
		return SetupDurable
	case s.RedisURL != "":
		return SetupRedis
	case s.DatabaseURL != "":
		return SetupDurableOneNode
	}
	return SetupEmbedded
}

// Embedded reports whether Redis runs within this process.
func (s Setup) Embedded() bool { return s == SetupEmbedded || s == SetupDurableOneNode }

// String shows which connection strings are set, but not the strings: they hold passwords.
func (s Stores) String() string { return shown(s.fields()...) }

// fields are the names and values that String shows.
func (s Stores) fields() []any {
	return []any{"redis-url", hidden(s.RedisURL), "database-url", hidden(s.DatabaseURL)}
}

// GoString is String, for %#v.
func (s Stores) GoString() string { return s.String() }

// LogValue is String, for slog.
func (s Stores) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String shows the settings without their secrets.
func (s Server) String() string {
	return shown(slices.Concat([]any{"config", s.Config}, s.fields(), []any{
		"log-format", s.LogFormat, "log-level", s.LogLevel, "roles", strings.Join(s.Roles, ","),
		"listen", s.Listen, "ops-listen", s.OpsListen, "ops-token", hidden(s.OpsToken),
		"allowed-hosts", strings.Join(s.AllowedHosts, ","), "policy", s.Policy,
		"api-tokens", hidden(strings.Join(s.APITokens, ",")), "public-url", s.PublicURL,
		"unsubscribe-key", hidden(strings.Join(s.UnsubscribeKey, ",")), "api-limits", strings.Join(s.APILimits, ","),
		"api-route-limits", strings.Join(s.APIRouteLimits, ","), "concurrency", s.Concurrency,
		"partitions", s.Partitions, "drain-timeout", s.DrainTimeout, "retention", s.Retention,
		"bulk-rate", s.BulkRate, "templates", s.Templates, "webhook-allow", strings.Join(s.WebhookAllow, ","),
		"webhook-disable-after", s.WebhookDisableAfter, "events-endpoints", hidden(strings.Join(s.EventsEndpoints, ",")),
		"events-types", strings.Join(s.EventsTypes, ","), "events-secret", hidden(s.EventsSecret),
		"channels", s.Channels,
	})...)
}

// GoString is String, for %#v.
func (s Server) GoString() string { return s.String() }

// LogValue is String, for slog.
func (s Server) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String shows the settings without the token.
func (c Client) String() string { return shown("server", c.Server, "token", hidden(c.Token)) }

// GoString is String, for %#v.
func (c Client) GoString() string { return c.String() }

// LogValue is String, for slog.
func (c Client) LogValue() slog.Value { return slog.StringValue(c.String()) }

// shown writes names and values by turns.
func shown(pairs ...any) string {
	var text strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&text, " %v:%v", pairs[i], pairs[i+1])
	}
	return "{" + strings.TrimPrefix(text.String(), " ") + "}"
}

// hidden stands for a secret, and is empty when there is none.
func hidden(secret string) string {
	if secret == "" {
		return ""
	}
	return "<secret>"
}
