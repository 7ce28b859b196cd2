// Package settings reads what the two programs are told from outside. A flag wins over an environment variable, which
// wins over the YAML file, which wins over the default.
//
// Server and Client are the settings. A program embeds one of them in its command line, which NewParser builds and
// Parse reads. Server.Resolve checks the settings and converts them to the form that the rest of pacer uses. A setting
// that is refused is a *UsageError, and the program exits with code 2.
//
// Every flag --foo-bar has the environment variable PACER_FOO_BAR, except the two connection strings, which keep their
// usual names. A variable that is set to nothing counts as not set. In the file a setting has the name of its flag,
// with dashes or underscores.
package settings

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// File is the flag that names the settings file. A command without it reads no file.
type File struct {
	// Config is the path of a YAML file with settings. Defaults to none.
	Config string `name:"config" placeholder:"FILE" help:"YAML file with settings, named as the flags are."`
}

// Stores are the two connection strings. Which of them are set decides the set-up; see [Stores.Setup].
type Stores struct {
	// RedisURL is where queue and limiter live. Defaults to an in-process Redis.
	RedisURL string `name:"redis-url" env:"REDIS_URL" placeholder:"URL" json:"-" help:"Redis: redis://, rediss://, unix://, redis+cluster://h1:p1,h2:p2 or redis+sentinel://h1:p1,h2:p2/MASTER. Without it, an in-process one."`
	// DatabaseURL is the Postgres that keeps the store. Defaults to keeping the store in Redis.
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" placeholder:"URL" json:"-" help:"Postgres that keeps the store: postgres://... Without it, the store is in Redis."`
}

// Logging says how the program logs.
type Logging struct {
	// LogFormat is text or json. Defaults to text on a terminal, else json.
	LogFormat string `name:"log-format" placeholder:"FORMAT" help:"text or json. Default: text on a terminal, else json."`
	// LogLevel is debug, info, warn or error. Defaults to info.
	LogLevel string `name:"log-level" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error. Default: info."`
}

// Server are the settings of a running dispatcher.
type Server struct {
	File
	Stores
	Logging
	Channels

	// Roles are what the process does: api, worker, ops. Defaults to all.
	Roles []string `name:"roles" default:"api,worker,ops" placeholder:"ROLE" help:"What this process does: api, worker, ops. Default: all."`
	// Listen is the address of the HTTP API. Defaults to 127.0.0.1:8080.
	Listen string `name:"listen" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the HTTP API. Default: ${default}."`
	// OpsListen is the address of dashboard, metrics, health and pprof. Defaults to 127.0.0.1:8081.
	OpsListen string `name:"ops-listen" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address of dashboard, metrics, health and pprof. Default: ${default}."`
	// OpsToken is the bearer token of actions on the ops pages. Defaults to none, with which they are taken on a
	// loopback address only.
	OpsToken string `name:"ops-token" placeholder:"TOKEN" json:"-" help:"Bearer token for pausing, cancelling and the like on the ops pages. Without it, those are taken on a loopback address only."`
	// AllowedHosts are names, besides this machine's own and those of the addresses to listen on, under which the ops
	// pages and an API without tokens answer. Defaults to none.
	AllowedHosts []string `name:"allowed-hosts" placeholder:"NAME" help:"Host names under which the ops pages, and an API without tokens, answer besides localhost and addresses: ops.example.com, *.example.com, or * for all."`
	// Policy is the path of the policy file. Defaults to the built-in policy.
	Policy string `name:"policy" placeholder:"FILE" help:"Policy file, reloaded on SIGHUP and on change. Default: built-in."`
	// APITokens are the bearer tokens of the HTTP API. Defaults to none, with which it starts on a loopback address
	// only.
	APITokens []string `name:"api-tokens" placeholder:"TOKEN" json:"-" help:"Bearer tokens of the HTTP API. Without any, it only starts on a loopback address."`
	// APILimits bound the requests of a token over the whole API, APIRouteLimits those on each route, of the form
	// 100/1s. Without tokens an address counts as one. Default to none.
	APILimits      []string `name:"api-limits" placeholder:"N/DURATION" help:"Requests of a token, as 100/1s; several hold at once, over all processes. Default: none."`
	APIRouteLimits []string `name:"api-route-limits" placeholder:"N/DURATION" help:"Requests of a token on each route. Default: none."`
	// Concurrency is how many deliveries are in flight per process. Defaults to 256.
	Concurrency int `name:"concurrency" default:"256" placeholder:"N" help:"Deliveries in flight per process. Default: ${default}."`
	// Partitions is how many partitions the queue has; one value per deployment. Defaults to 16.
	Partitions int `name:"partitions" default:"16" placeholder:"N" help:"Partitions of the queue by user, the same in the whole deployment. Default: ${default}."`
	// DrainTimeout is how long a stopping process waits for deliveries in flight. Defaults to 20 seconds.
	DrainTimeout time.Duration `name:"drain-timeout" default:"20s" placeholder:"DURATION" help:"How long SIGTERM waits for deliveries in flight. Default: ${default}."`
	// Retention is how long Postgres keeps notifications that have ended. Defaults to 30 days.
	Retention time.Duration `name:"retention" default:"720h" placeholder:"DURATION" help:"How long Postgres keeps notifications that have ended. Default: 30 days."`
	// Templates is a folder of templates for contents. Defaults to none.
	Templates string `name:"templates" placeholder:"FOLDER" help:"Folder of templates for contents. Default: none."`
	// WebhookAllow are CIDRs that webhook targets may be in although not public. Defaults to none.
	WebhookAllow []string `name:"webhook-allow" placeholder:"CIDR" help:"Networks that webhook targets may be in although not public."`
}

// Client says where a producer reaches pacer over HTTP, when it has no connection strings.
type Client struct {
	// Server is the base URL of the HTTP API. Defaults to http://127.0.0.1:8080.
	Server string `name:"server" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Base URL of the HTTP API. Default: ${default}."`
	// Token is the bearer token. Defaults to none.
	Token string `name:"token" placeholder:"TOKEN" json:"-" help:"Bearer token of the HTTP API."`
}

// Setup is which stores a deployment runs on.
type Setup string

// The four set-ups.
const (
	// SetupEmbedded keeps everything in an in-process Redis: nothing survives a restart.
	SetupEmbedded Setup = "embedded"
	// SetupRedis keeps everything in Redis, as durable as that is configured.
	SetupRedis Setup = "redis"
	// SetupDurable keeps the store in Postgres; Redis is transport and can be lost whole.
	SetupDurable Setup = "durable"
	// SetupDurableOneNode keeps the store in Postgres; an in-process Redis is rebuilt from it at start.
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

// Embedded tells whether Redis runs within this process.
func (s Setup) Embedded() bool { return s == SetupEmbedded || s == SetupDurableOneNode }

// String shows which connection strings are set, not what they say: they hold passwords.
func (s Stores) String() string {
	return fmt.Sprintf("{redis-url:%s database-url:%s}", hidden(s.RedisURL), hidden(s.DatabaseURL))
}

// GoString is String, for %#v.
func (s Stores) GoString() string { return s.String() }

// LogValue is String, for slog.
func (s Stores) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String shows the settings without what is secret in them.
func (s Server) String() string {
	return fmt.Sprintf("{config:%s %s log-format:%s log-level:%s roles:%s listen:%s ops-listen:%s ops-token:%s allowed-hosts:%s policy:%s "+
		"api-tokens:%s api-limits:%s api-route-limits:%s concurrency:%d partitions:%d drain-timeout:%s retention:%s templates:%s webhook-allow:%s channels:%s}",
		s.Config, strings.Trim(s.Stores.String(), "{}"), s.LogFormat, s.LogLevel, strings.Join(s.Roles, ","), s.Listen,
		s.OpsListen, hidden(s.OpsToken), strings.Join(s.AllowedHosts, ","), s.Policy,
		hidden(strings.Join(s.APITokens, ",")), strings.Join(s.APILimits, ","),
		strings.Join(s.APIRouteLimits, ","), s.Concurrency, s.Partitions, s.DrainTimeout, s.Retention, s.Templates,
		strings.Join(s.WebhookAllow, ","), s.Channels)
}

// GoString is String, for %#v.
func (s Server) GoString() string { return s.String() }

// LogValue is String, for slog.
func (s Server) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String shows the settings without the token.
func (c Client) String() string {
	return fmt.Sprintf("{server:%s token:%s}", c.Server, hidden(c.Token))
}

// GoString is String, for %#v.
func (c Client) GoString() string { return c.String() }

// LogValue is String, for slog.
func (c Client) LogValue() slog.Value { return slog.StringValue(c.String()) }

func hidden(secret string) string {
	if secret == "" {
		return ""
	}
	return "<secret>"
}
