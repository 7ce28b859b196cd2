package settings

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisOption is an option of a Redis URL: the field that it sets, which has one of the types, and the kinds of Redis
// that have it.
type redisOption struct {
	duration func(*redis.UniversalOptions) *time.Duration
	number   func(*redis.UniversalOptions) *int
	flag     func(*redis.UniversalOptions) *bool
	text     func(*redis.UniversalOptions) *string
	only     RedisKind // empty: every kind
	not      RedisKind
}

// redisOptions are the options by their names in go-redis's URLs.
var redisOptions = map[string]redisOption{
	"client_name": {text: func(o *redis.UniversalOptions) *string { return &o.ClientName }},
	"protocol":    {number: func(o *redis.UniversalOptions) *int { return &o.Protocol }},
	"db":          {number: func(o *redis.UniversalOptions) *int { return &o.DB }, not: RedisCluster},

	"dial_timeout":  {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.DialTimeout }},
	"read_timeout":  {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.ReadTimeout }},
	"write_timeout": {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.WriteTimeout }},

	"max_retries":          {number: func(o *redis.UniversalOptions) *int { return &o.MaxRetries }},
	"min_retry_backoff":    {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.MinRetryBackoff }},
	"max_retry_backoff":    {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.MaxRetryBackoff }},
	"dialer_retries":       {number: func(o *redis.UniversalOptions) *int { return &o.DialerRetries }},
	"dialer_retry_timeout": {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.DialerRetryTimeout }},

	"pool_fifo":            {flag: func(o *redis.UniversalOptions) *bool { return &o.PoolFIFO }},
	"pool_size":            {number: func(o *redis.UniversalOptions) *int { return &o.PoolSize }},
	"pool_timeout":         {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.PoolTimeout }},
	"min_idle_conns":       {number: func(o *redis.UniversalOptions) *int { return &o.MinIdleConns }},
	"max_idle_conns":       {number: func(o *redis.UniversalOptions) *int { return &o.MaxIdleConns }},
	"max_active_conns":     {number: func(o *redis.UniversalOptions) *int { return &o.MaxActiveConns }},
	"max_concurrent_dials": {number: func(o *redis.UniversalOptions) *int { return &o.MaxConcurrentDials }},
	"conn_max_idle_time":   {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.ConnMaxIdleTime }},
	"conn_max_lifetime":    {duration: func(o *redis.UniversalOptions) *time.Duration { return &o.ConnMaxLifetime }},

	"pipeline_pool_size":         {number: func(o *redis.UniversalOptions) *int { return &o.PipelinePoolSize }},
	"pipeline_read_buffer_size":  {number: func(o *redis.UniversalOptions) *int { return &o.PipelineReadBufferSize }},
	"pipeline_write_buffer_size": {number: func(o *redis.UniversalOptions) *int { return &o.PipelineWriteBufferSize }},

	"max_redirects": {
		number: func(o *redis.UniversalOptions) *int { return &o.MaxRedirects },
		only:   RedisCluster,
	},
	"failing_timeout_seconds": {
		number: func(o *redis.UniversalOptions) *int { return &o.FailingTimeoutSeconds },
		only:   RedisCluster,
	},

	"sentinel_username": {
		text: func(o *redis.UniversalOptions) *string { return &o.SentinelUsername },
		only: RedisSentinel,
	},
	"sentinel_password": {
		text: func(o *redis.UniversalOptions) *string { return &o.SentinelPassword },
		only: RedisSentinel,
	},
}

// readOptions reads the options of a URL. An option without a value keeps its default.
func (r *Redis) readOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("has options that are not of the form ?name=value&name=value")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		option, ok := redisOptions[name]
		if !ok {
			return fmt.Errorf("has an unknown option %s; known are %s", quoteName(name),
				strings.Join(slices.Sorted(maps.Keys(redisOptions)), ", "))
		}
		if option.only != "" && option.only != r.Kind || option.not == r.Kind {
			return fmt.Errorf("has the option %s, which does not exist for this kind of Redis", name)
		}
		value := values[name][len(values[name])-1]
		if name == "sentinel_password" && value == "" {
			return errors.New("has the option sentinel_password without a value; leave it out for a user without a password")
		}
		if value == "" {
			continue
		}
		if err := option.set(r.Options, value); err != nil {
			return fmt.Errorf("has the option %s, which must be %w", name, err)
		}
	}
	if r.Options.SentinelUsername != "" && r.Options.SentinelPassword == "" {
		r.Options.SentinelPassword = noPassword
	}
	if r.Options.DB < 0 {
		return errors.New("has the option db, which must not be negative")
	}
	return nil
}

// quoteName shows the name of an option, unless it does not look like one: then it may be a part of a password.
func quoteName(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool { return !(c >= 'a' && c <= 'z' || c == '_') }) {
		return "(not shown)"
	}
	return strconv.Quote(name)
}

func (o redisOption) set(options *redis.UniversalOptions, value string) error {
	switch {
	case o.duration != nil:
		d, err := redisDuration(value)
		*o.duration(options) = d
		return err
	case o.number != nil:
		n, err := strconv.Atoi(value)
		*o.number(options) = n
		if err != nil {
			return errors.New("a whole number")
		}
	case o.flag != nil:
		b, err := strconv.ParseBool(value)
		*o.flag(options) = b
		if err != nil {
			return errors.New("true or false")
		}
	case o.text != nil:
		*o.text(options) = value
	}
	return nil
}

// redisDuration reads a duration as go-redis does: a bare number means seconds, and a duration that is not above 0
// means no limit.
func redisDuration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if seconds, numberErr := strconv.ParseInt(value, 10, 32); numberErr == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil {
		return 0, errors.New("a duration such as 2s")
	}
	if d <= 0 {
		return -1, nil
	}
	return d, nil
}
