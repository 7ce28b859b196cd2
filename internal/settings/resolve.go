package settings

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// The bounds of the numbers.
const (
	MaxPartitions  = 1024
	MaxConcurrency = 100_000
	MaxBulkRate    = 10_000
)

// highest are the bounds by flag; the lowest is 1.
var highest = map[string]int{
	"partitions": MaxPartitions, "concurrency": MaxConcurrency, "bulk-rate": MaxBulkRate,
}

// What the log's settings can be.
var (
	logLevels  = []string{"debug", "info", "warn", "error"}
	logFormats = []string{"text", "json"}
)

// Validate is [Server.Resolve] without its result, in the form that the command line asks for.
func (s *Server) Validate() error {
	_, err := s.Resolve()
	return err
}

// Resolve checks the settings and turns them into the form that they are used in. The error joins everything that is
// refused, each a [*UsageError].
func (s *Server) Resolve() (*Resolved, error) {
	renewed := s.renewed()
	redis, redisErr := renewed.Redis.read()
	database, databaseErr := renewed.Database.read()
	roles, rolesErr := s.resolveRoles()
	tokens, tokensErr := renewed.APITokens.read()
	limits, limitsErr := resolveLimits("api-limits", s.APILimits)
	routeLimits, routeLimitsErr := resolveLimits("api-route-limits", s.APIRouteLimits)
	allow, allowErr := s.resolveAllow()
	opsTokens, opsTokenErr := renewed.OpsToken.read()
	allowedHosts, hostsErr := s.resolveAllowedHosts()
	channels, channelsErr := s.Channels.resolve()
	keys, keysErr := s.resolveKeys(renewed)
	public, linksErr := s.resolveLinks()
	events, eventsErr := s.Webhooks.resolve(renewed.EventsSecret.read)
	level, levelErr := s.Level()
	r := &Resolved{
		Setup: s.Setup(), Redis: redis, DatabaseURL: database, Roles: roles, Listen: s.Listen,
		OpsListen: s.OpsListen, OpsToken: strings.Join(opsTokens, ""), AllowedHosts: allowedHosts, Policy: s.Policy, APITokens: tokens,
		PublicURL: public, Keys: keys, APILimits: limits, APIRouteLimits: routeLimits,
		Concurrency: s.Concurrency, Partitions: s.Partitions,
		DrainTimeout: s.DrainTimeout, Retention: s.Retention, BulkRate: s.BulkRate, Templates: s.Templates,
		WebhookAllow: allow, WebhookDisableAfter: s.WebhookDisableAfter, Events: events,
		Channels: channels, Renewed: renewed, LogFormat: s.LogFormat, LogLevel: level,
	}
	err := errors.Join(
		redisErr, databaseErr, levelErr, s.checkFormat(), rolesErr, r.checkAddresses(), tokensErr, opsTokenErr,
		hostsErr, keysErr, linksErr, limitsErr, routeLimitsErr,
		between("concurrency", s.Concurrency), between("partitions", s.Partitions),
		between("bulk-rate", s.BulkRate), s.checkDrainTimeout(), s.checkRetention(), allowErr, channelsErr, eventsErr,
	)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// renewed are the settings whose values may stand in files.
func (s *Server) renewed() Renewed {
	_, eventsSecret := s.eventsSecret()
	return Renewed{
		Redis: fromFile("redis-url", s.readRedis, s.RedisURL), Database: fromFile("database-url", s.readDatabase, s.DatabaseURL),
		APITokens: fromFile("api-tokens", s.readTokens, s.APITokens...),
		OpsToken:  fromFile("ops-token", s.readOpsToken, s.OpsToken),

		UnsubscribeKey: fromFile("unsubscribe-key", s.readUnsubscribeKey, s.UnsubscribeKey...),
		EventsSecret:   fromFile("events-secret", s.readEventsSecret, eventsSecret),
	}
}

// Validate checks the connection strings alone, for commands that take no other settings. The error joins everything
// that is refused, each a [*UsageError].
func (s Stores) Validate() error {
	_, redisErr := s.readRedis()
	_, databaseErr := s.readDatabase()
	return errors.Join(redisErr, databaseErr)
}

func (s Stores) readRedis() (*Redis, error) {
	if s.RedisURL == "" {
		return nil, nil //nolint:nilnil // none is a valid setting
	}
	text := s.RedisURL
	if err := readCredential("redis-url", &text); err != nil {
		return nil, err
	}
	redis, err := ParseRedisURL(text)
	if err != nil {
		return nil, refuse("redis-url", "%v", err)
	}
	return redis, nil
}

func (s Stores) readDatabase() (string, error) {
	return ReadDatabaseURL(flagName("database-url"), s.DatabaseURL)
}

// Validate checks how to log. The error joins everything that is refused, each a [*UsageError].
func (l Logging) Validate() error {
	_, err := l.Level()
	return errors.Join(err, l.checkFormat())
}

// Level reads the log level.
func (l Logging) Level() (slog.Level, error) {
	switch l.LogLevel {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, refuse("log-level", "must be debug, info, warn or error, is %q%s", l.LogLevel,
		nearest.Hint(l.LogLevel, logLevels))
}

func (l Logging) checkFormat() error {
	switch l.LogFormat {
	case "", "text", "json":
		return nil
	}
	return refuse("log-format", "must be text or json, is %q%s", l.LogFormat,
		nearest.Hint(l.LogFormat, logFormats))
}

func (s *Server) resolveRoles() ([]Role, error) {
	var roles []Role
	for _, name := range s.Roles {
		role := Role(strings.TrimSpace(name))
		switch role {
		case RoleAPI, RoleWorker, RoleOps:
		default:
			return nil, refuse("roles", "must be one or more of api, worker and ops, not %q%s", name,
				nearest.Hint(name, []string{string(RoleAPI), string(RoleWorker), string(RoleOps)}))
		}
		if !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	if len(roles) == 0 {
		return nil, refuse("roles", "must name at least one of api, worker and ops")
	}
	return roles, nil
}

// checkAddresses checks the addresses of the roles that the process has.
func (r *Resolved) checkAddresses() error {
	var faults []error
	if r.HasRole(RoleAPI) {
		local, err := isLoopback(r.Listen)
		switch {
		case err != nil:
			faults = append(faults, refuse("listen", "%v", err))
		case !local && len(r.APITokens) == 0:
			faults = append(faults, refuse("listen", "is %s, which other machines can reach, and needs %s to be set; "+
				"without tokens the API only starts on a loopback address such as 127.0.0.1:8080",
				r.Listen, flagName("api-tokens")))
		}
	}
	if r.HasRole(RoleOps) {
		if _, err := isLoopback(r.OpsListen); err != nil {
			faults = append(faults, refuse("ops-listen", "%v", err))
		}
	}
	if r.HasRole(RoleAPI) && r.HasRole(RoleOps) && r.Listen == r.OpsListen && !strings.HasSuffix(r.Listen, ":0") {
		faults = append(faults, refuse("ops-listen", "must differ from %s, both are %s", flagName("listen"), r.Listen))
	}
	return errors.Join(faults...)
}

// isLoopback reads an address to listen on and reports whether only this machine can reach it. Of names only localhost
// is known to be so.
func isLoopback(address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, errors.New("must be an address such as 127.0.0.1:8080, is " + quoted(address))
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, errors.New("must end in a port between 0 and 65535, is " + quoted(address))
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback(), nil
	}
	if strings.ContainsAny(host, " /@[]:") {
		return false, errors.New("must be an address such as 127.0.0.1:8080, is " + quoted(address))
	}
	return strings.EqualFold(host, "localhost"), nil
}

// minRetention is how long a notification that has ended can be looked up at least.
const minRetention = time.Hour

func (s *Server) checkRetention() error {
	if s.Retention < minRetention {
		return refuse("retention", "must be at least %s, is %s", timespan.Text(minRetention), timespan.Text(s.Retention))
	}
	return nil
}

// readTokens reads the tokens of the API. A file holds one or several.
func (s *Server) readTokens() ([]string, error) {
	var tokens []string
	for _, token := range s.APITokens {
		texts := []string{strings.TrimSpace(token)}
		if len(pathsIn(token)) > 0 {
			if err := readCredential("api-tokens", &token); err != nil {
				return nil, err
			}
			texts = splitEntries(token)
		}
		for _, text := range texts {
			if err := checkToken(text); err != nil {
				return nil, refuse("api-tokens", "has a token that can't be used: number %d %v", len(tokens)+1, err)
			}
			tokens = append(tokens, text)
		}
	}
	return tokens, nil
}

func (s *Server) resolveAllowedHosts() ([]string, error) {
	var names []string
	for _, name := range s.AllowedHosts {
		name = strings.TrimSpace(name)
		if err := checkHost(name); err != nil {
			return nil, refuse("allowed-hosts", "%v, not %q", err, name)
		}
		names = append(names, name)
	}
	return names, nil
}

// readOpsToken reads the token of the ops pages, if there is one: a list of one.
func (s *Server) readOpsToken() ([]string, error) {
	token := s.OpsToken
	if err := readCredential("ops-token", &token); err != nil || token == "" {
		return nil, err
	}
	if err := checkToken(token); err != nil {
		return nil, refuse("ops-token", "%v", err)
	}
	return []string{token}, nil
}

// checkToken checks that a token can stand in an Authorization header. Its errors never show the token.
func checkToken(token string) error {
	if token == "" {
		return errors.New("is empty")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("has spaces or characters outside ASCII")
	}
	return nil
}

func (s *Server) resolveAllow() ([]netip.Prefix, error) {
	var networks []netip.Prefix
	var faults []error
	for _, text := range s.WebhookAllow {
		text = strings.TrimSpace(text)
		network, err := netip.ParsePrefix(text)
		if err == nil {
			networks = append(networks, network.Masked())
			continue
		}
		if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
			faults = append(faults, refuse("webhook-allow", "must hold networks; for a single address write %s/%d", ip,
				ip.BitLen()))
			continue
		}
		faults = append(faults, refuse("webhook-allow", "must hold networks such as 10.0.0.0/8 or fd00::/8, not %q",
			text))
	}
	return networks, errors.Join(faults...)
}

func (s *Server) checkDrainTimeout() error {
	if s.DrainTimeout <= 0 {
		return refuse("drain-timeout", "must be more than 0, is %s", s.DrainTimeout)
	}
	return nil
}

// between checks that a number is at least 1 and at most highest.
func between(flag string, value int) error {
	if value < 1 || value > highest[flag] {
		return refuse(flag, "must be between 1 and %d, is %d", highest[flag], value)
	}
	return nil
}

// Validate checks where pacer is. The error joins everything that is refused, each a [*UsageError].
func (c Client) Validate() error {
	var faults []error
	u, err := readURL(c.Server)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" ||
		u.Fragment != "":
		faults = append(faults, refuse("server", "must be a URL such as http://127.0.0.1:8080"))
	case u.User != nil:
		faults = append(faults, refuse("server", "must not hold a user or password; set %s", flagName("token")))
	}
	if c.Token != "" {
		if err := checkToken(c.Token); err != nil {
			faults = append(faults, refuse("token", "%v", err))
		}
	}
	return errors.Join(faults...)
}
