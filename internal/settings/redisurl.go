package settings

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// RedisKind is how the nodes of a Redis work together.
type RedisKind string

// The kinds.
const (
	RedisSingle   RedisKind = "single"   // one node, by TCP, TLS or a unix socket
	RedisCluster  RedisKind = "cluster"  // Redis Cluster
	RedisSentinel RedisKind = "sentinel" // one master that Sentinels watch over
)

// The ports of hosts that name none.
const (
	defaultRedisPort    = "6379"
	defaultSentinelPort = "26379"
)

// Redis says where a Redis is and how to connect to it.
type Redis struct {
	// Kind decides which client [redis.NewUniversalClient] makes of the options.
	Kind RedisKind
	// Options are complete for [redis.NewUniversalClient]. They hold the password.
	Options *redis.UniversalOptions
	// display is the URL without user, password and options.
	display string
}

// String is the URL without user, password and options.
func (r *Redis) String() string {
	if r == nil {
		return ""
	}
	return r.display
}

// GoString is String, for %#v.
func (r *Redis) GoString() string { return r.String() }

// LogValue is String, for slog.
func (r *Redis) LogValue() slog.Value { return slog.StringValue(r.String()) }

// redisSchemes are the URL schemes: the kind of Redis, and whether connections use TLS.
var redisSchemes = map[string]struct {
	kind RedisKind
	tls  bool
}{
	"redis":           {RedisSingle, false},
	"rediss":          {RedisSingle, true},
	"unix":            {RedisSingle, false},
	"redis+cluster":   {RedisCluster, false},
	"rediss+cluster":  {RedisCluster, true},
	"redis+sentinel":  {RedisSentinel, false},
	"rediss+sentinel": {RedisSentinel, true},
}

// ParseRedisURL reads where Redis is:
//
//	redis://user:password@host:6379/0       one node
//	rediss://user:password@host:6379/0      one node, TLS 1.2 or newer with its certificate verified
//	unix://user:password@/path/to.sock?db=0 one node, by a unix socket
//	redis+cluster://user:password@h1:p1,h2:p2
//	redis+sentinel://user:password@h1:p1,h2:p2/MASTER/0
//
// with rediss+cluster and rediss+sentinel for TLS. Port and database may be left out. User and password are those of
// Redis; those of the Sentinels are the options sentinel_username and sentinel_password. Options follow as
// ?dial_timeout=2s&pool_size=50. They are go-redis's, in its notation, except those that would weaken pacer's promises:
// no read from replicas, no unverified TLS.
//
// A user without a password is one to whom Redis gives none (nopass).
//
// In a password / ? # @ % must be percent-encoded. No error shows any part of the URL that could belong to a password.
func ParseRedisURL(raw string) (*Redis, error) {
	scheme, _, _ := strings.Cut(raw, "://")
	known, ok := redisSchemes[scheme]
	if !ok {
		return nil, errors.New("must begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://")
	}
	at, err := splitURL(raw)
	if err != nil {
		return nil, err
	}
	r := &Redis{Kind: known.kind, Options: &redis.UniversalOptions{IsClusterMode: known.kind == RedisCluster}}
	if r.Options.Username, r.Options.Password, err = redisLogin(at); err != nil {
		return nil, err
	}
	if scheme == "unix" {
		err = r.readSocket(at.hosts, at.path)
	} else {
		err = errors.Join(r.readHosts(at.hosts), r.readPath(at.path))
	}
	if err != nil {
		return nil, err
	}
	if known.tls {
		// Without a ServerName each node's certificate is checked against the name that it is dialled by.
		r.Options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if err := r.readOptions(at.query); err != nil {
		return nil, err
	}
	r.display = r.show(scheme)
	return r, nil
}

// show writes the URL without user, password and options.
func (r *Redis) show(scheme string) string {
	text := scheme + "://" + strings.Join(r.Options.Addrs, ",")
	if r.Kind == RedisSentinel {
		text += "/" + r.Options.MasterName
	}
	if r.Options.DB != 0 {
		text += " database " + strconv.Itoa(r.Options.DB)
	}
	return text
}

// noPassword goes with a user who has no password: without one the driver would not log in, and stay the default user.
// Redis takes any password of a user that has none (nopass), and refuses all others.
const noPassword = "nopass"

// redisLogin are the user and password of a URL. An empty password may be a variable that is not set, and must not give
// the rights of Redis's default user.
func redisLogin(at location) (user, password string, err error) {
	switch {
	case at.password != "" || !at.hasLogin:
		return at.user, at.password, nil
	case at.user == "" || strings.Contains(at.login, ":"):
		return "", "", errors.New("has an empty user or password before the @: write redis://:PASSWORD@HOST, " +
			"redis://USER:PASSWORD@HOST, redis://USER@HOST for a user without a password, or redis://HOST")
	}
	return at.user, noPassword, nil
}

func (r *Redis) readSocket(hosts, path string) error {
	if hosts != "" {
		return errors.New("must name an absolute path after unix://, as in unix:///run/redis.sock")
	}
	socket, err := url.PathUnescape(path)
	if err != nil || len(socket) < 2 {
		return errors.New("must name the path of a socket, as in unix:///run/redis.sock")
	}
	r.Options.Addrs = []string{socket}
	return nil
}

func (r *Redis) readHosts(hosts string) error {
	port := defaultRedisPort
	if r.Kind == RedisSentinel {
		port = defaultSentinelPort
	}
	list := strings.Split(hosts, ",")
	if r.Kind == RedisSingle && len(list) > 1 {
		return errors.New("names several hosts, so it must begin with redis+cluster:// or redis+sentinel://")
	}
	for i, host := range list {
		if r.Kind == RedisSingle && (host == "" || host[0] == ':') {
			host = "localhost" + host // as all Redis clients read redis://:6379
		}
		address, ok := readHost(host, port)
		if !ok {
			return fmt.Errorf("must name host %d of %d as host or host:port, with a port between 1 and 65535; "+
				"in a password, / ? # @ and %% must be percent-encoded", i+1, len(list))
		}
		r.Options.Addrs = append(r.Options.Addrs, address)
	}
	return nil
}

// readHost completes an address. It is strict about host names, so that the rest of a password that was not encoded is
// not taken for one.
func readHost(text, defaultPort string) (string, bool) {
	host, port := text, defaultPort
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:i], text[i+1:]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if ip := net.ParseIP(host); !ok || ip == nil || !strings.Contains(host, ":") {
			return "", false
		}
		return net.JoinHostPort(host, port), true
	}
	if host == "" || strings.ContainsFunc(host, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._", c))
	}) {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// readPath reads /DB, or for Sentinel /MASTER and /MASTER/DB.
func (r *Redis) readPath(path string) error {
	path = strings.Trim(path, "/")
	if r.Kind == RedisSentinel {
		var err error
		master, rest, _ := strings.Cut(path, "/")
		if r.Options.MasterName, err = url.PathUnescape(master); err != nil || master == "" {
			return errors.New("must name the master after the hosts, as in redis+sentinel://h1:26379,h2:26379/mymaster")
		}
		path = rest
	}
	if path == "" {
		return nil
	}
	db, err := strconv.ParseUint(path, 10, 16)
	if err != nil {
		return errors.New("must end in the number of a database, such as /0, or without a path")
	}
	if r.Kind == RedisCluster && db != 0 {
		return errors.New("must not name a database; Redis Cluster only has number 0")
	}
	r.Options.DB = int(db)
	return nil
}
