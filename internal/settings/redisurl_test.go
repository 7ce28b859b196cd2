package settings_test

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/transcript"
)

// sameOptions compares options without their functions. Of TLS it compares the exported fields.
var sameOptions = cmp.Options{
	cmpopts.IgnoreFields(redis.UniversalOptions{}, "Dialer", "OnConnect"),
	cmpopts.IgnoreUnexported(tls.Config{}),
}

func TestParseRedisURL(t *testing.T) {
	t.Parallel()
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	single := func(addr string) redis.UniversalOptions { return redis.UniversalOptions{Addrs: []string{addr}} }
	with := func(o redis.UniversalOptions, change func(*redis.UniversalOptions)) redis.UniversalOptions {
		change(&o)
		return o
	}
	tests := map[string]struct {
		kind    settings.RedisKind
		options redis.UniversalOptions
		display string
	}{
		"redis://h": {kind: settings.RedisSingle, options: single("h:6379"), display: "redis://h:6379"},
		"redis://": {
			kind: settings.RedisSingle, options: single("localhost:6379"), display: "redis://localhost:6379",
		},
		"redis://:6380/": {
			kind: settings.RedisSingle, options: single("localhost:6380"), display: "redis://localhost:6380",
		},
		"redis://[::1]": {
			kind: settings.RedisSingle, options: single("[::1]:6379"), display: "redis://[::1]:6379",
		},
		"redis://[fd00::2]:7000": {
			kind: settings.RedisSingle, options: single("[fd00::2]:7000"), display: "redis://[fd00::2]:7000",
		},
		"redis://u:p%40%2F%3a@my-redis_1.example:7000/5": {
			kind: settings.RedisSingle,
			options: with(single("my-redis_1.example:7000"),
				func(o *redis.UniversalOptions) { o.Username, o.Password, o.DB = "u", "p@/:", 5 }),
			display: "redis://my-redis_1.example:7000 database 5",
		},
		"redis://:a:b@c@h": {
			kind:    settings.RedisSingle,
			options: with(single("h:6379"), func(o *redis.UniversalOptions) { o.Password = "a:b@c" }),
			display: "redis://h:6379",
		},
		"redis://u@h?db=2": {
			kind:    settings.RedisSingle,
			options: with(single("h:6379"), func(o *redis.UniversalOptions) { o.Username, o.Password, o.DB = "u", "nopass", 2 }),
			display: "redis://h:6379 database 2",
		},
		"rediss://h:7000/0": {
			kind:    settings.RedisSingle,
			options: with(single("h:7000"), func(o *redis.UniversalOptions) { o.TLSConfig = secure }),
			display: "rediss://h:7000",
		},
		"unix:///run/redis.sock": {
			kind: settings.RedisSingle, options: single("/run/redis.sock"), display: "unix:///run/redis.sock",
		},
		"unix://u:p@/run/my%20redis.sock?db=3": {
			kind: settings.RedisSingle,
			options: with(single("/run/my redis.sock"),
				func(o *redis.UniversalOptions) { o.Username, o.Password, o.DB = "u", "p", 3 }),
			display: "unix:///run/my redis.sock database 3",
		},
		"redis+cluster://h1": {
			kind:    settings.RedisCluster,
			options: redis.UniversalOptions{Addrs: []string{"h1:6379"}, IsClusterMode: true},
			display: "redis+cluster://h1:6379",
		},
		"redis+cluster://u:p@h1:1,h2,[::1]:3/0?max_redirects=5": {
			kind: settings.RedisCluster,
			options: redis.UniversalOptions{
				Addrs: []string{"h1:1", "h2:6379", "[::1]:3"}, IsClusterMode: true, Username: "u", Password: "p",
				MaxRedirects: 5,
			},
			display: "redis+cluster://h1:1,h2:6379,[::1]:3",
		},
		"rediss+cluster://h1:1,h2:2": {
			kind:    settings.RedisCluster,
			options: redis.UniversalOptions{Addrs: []string{"h1:1", "h2:2"}, IsClusterMode: true, TLSConfig: secure},
			display: "rediss+cluster://h1:1,h2:2",
		},
		"redis+sentinel://h1,h2:2/main": {
			kind:    settings.RedisSentinel,
			options: redis.UniversalOptions{Addrs: []string{"h1:26379", "h2:2"}, MasterName: "main"},
			display: "redis+sentinel://h1:26379,h2:2/main",
		},
		"rediss+sentinel://u:p@h1:1/ma%2Fin/4?sentinel_username=su&sentinel_password=s%26p": {
			kind: settings.RedisSentinel,
			options: redis.UniversalOptions{
				Addrs: []string{"h1:1"}, MasterName: "ma/in", DB: 4, Username: "u", Password: "p",
				SentinelUsername: "su", SentinelPassword: "s&p", TLSConfig: secure,
			},
			display: "rediss+sentinel://h1:1/ma/in database 4",
		},
		"redis://h?dial_timeout=2s&read_timeout=3&write_timeout=0&pool_timeout=-1s&pool_size=50&pool_fifo=true" +
			"&client_name=a+b&max_retries=-1&protocol=2&min_idle_conns=": {
			kind: settings.RedisSingle,
			options: with(single("h:6379"), func(o *redis.UniversalOptions) {
				o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = 2*time.Second, 3*time.Second, -1, -1
				o.PoolSize, o.PoolFIFO, o.ClientName, o.MaxRetries, o.Protocol = 50, true, "a b", -1, 2
			}),
			display: "redis://h:6379",
		},
	}
	for raw, test := range tests {
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			got, err := settings.ParseRedisURL(raw)
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind != test.kind || got.String() != test.display {
				t.Errorf("got %s %q, want %s %q", got.Kind, got, test.kind, test.display)
			}
			if diff := cmp.Diff(&test.options, got.Options, sameOptions); diff != "" {
				t.Errorf("options differ (-want +got):\n%s", diff)
			}
		})
	}
}

// Options that go-redis has in its own URLs are read as go-redis reads them.
func TestRedisOptionsAreGoRedisOptions(t *testing.T) {
	t.Parallel()
	const query = "?client_name=x&protocol=2&db=1&dial_timeout=1s&read_timeout=2&write_timeout=-3s&max_retries=4" +
		"&min_retry_backoff=5ms&max_retry_backoff=6s&pool_fifo=1&pool_size=7&pool_timeout=8s&min_idle_conns=9" +
		"&max_idle_conns=10&max_active_conns=11&max_concurrent_dials=12&conn_max_idle_time=13m&conn_max_lifetime=14h" +
		"&pipeline_pool_size=-1&pipeline_read_buffer_size=16&pipeline_write_buffer_size=17"
	want, err := redis.ParseURL("redis://u:p@h:1" + query)
	if err != nil {
		t.Fatal(err)
	}
	got, err := settings.ParseRedisURL("redis://u:p@h:1" + query)
	if err != nil {
		t.Fatal(err)
	}
	ignored := cmp.Options{
		cmpopts.IgnoreUnexported(redis.Options{}),
		cmpopts.IgnoreFields(redis.Options{}, "Network"), // go-redis finds it by the address when it is not set
	}
	if diff := cmp.Diff(want, got.Options.Simple(), ignored); diff != "" {
		t.Errorf("options differ (-go-redis +pacer):\n%s", diff)
	}
	const forCluster = "?max_redirects=3&failing_timeout_seconds=4&dialer_retries=5&dialer_retry_timeout=6s"
	wantCluster, err := redis.ParseClusterURL("redis://u:p@h:1" + forCluster)
	if err != nil {
		t.Fatal(err)
	}
	got, err = settings.ParseRedisURL("redis+cluster://u:p@h:1" + forCluster)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantCluster, got.Options.Cluster(),
		cmpopts.IgnoreUnexported(redis.ClusterOptions{})); diff != "" {
		t.Errorf("cluster options differ (-go-redis +pacer):\n%s", diff)
	}
}

func TestRedisOptionsMakeTheRightClient(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"redis://127.0.0.1:1":                  "*redis.Client tcp 127.0.0.1:1",
		"unix:///run/redis.sock":               "*redis.Client unix /run/redis.sock",
		"redis+cluster://127.0.0.1:1":          "*redis.ClusterClient [127.0.0.1:1]",
		"redis+sentinel://127.0.0.1:1/main":    "*redis.Client tcp FailoverClient",
		"redis+cluster://127.0.0.1:1,[::1]:2":  "*redis.ClusterClient [127.0.0.1:1 [::1]:2]",
		"rediss+sentinel://127.0.0.1:1/main/2": "*redis.Client tcp FailoverClient",
	} {
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			parsed, err := settings.ParseRedisURL(raw)
			if err != nil {
				t.Fatal(err)
			}
			client := redis.NewUniversalClient(parsed.Options)
			defer func() {
				if err := client.Close(); err != nil {
					t.Error(err)
				}
			}()
			got := fmt.Sprintf("%T", client)
			switch c := client.(type) {
			case *redis.Client:
				got += " " + c.Options().Network + " " + c.Options().Addr
			case *redis.ClusterClient:
				got += " " + fmt.Sprint(c.Options().Addrs)
			}
			if got != want {
				t.Errorf("made %s, want %s", got, want)
			}
		})
	}
}

// TestParseRedisURLRefuses reads the URLs of a transcript, and compares why each is refused.
func TestParseRedisURLRefuses(t *testing.T) {
	t.Parallel()
	transcript.Play(t, "testdata/redisurl.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		got, err := settings.ParseRedisURL(lines[0])
		if err == nil {
			t.Fatalf("%s is read as %s", lines[0], got)
		}
		wantNoLeak(t, err)
		return err.Error()
	})
}

// A password survives when it is encoded, and is never shown when it is not.
func TestRedisPasswords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const mark = "hunter2" // must never be seen, whatever stands around it
		password := rapid.StringMatching(`[ -~]{0,6}`).Draw(t,
			"before") + mark + rapid.StringMatching(`[ -~]{0,6}`).Draw(t, "after")
		scheme := rapid.SampledFrom([]string{
			"redis", "rediss", "redis+cluster", "redis+sentinel", "unix",
		}).Draw(t, "scheme")
		user := rapid.SampledFrom([]string{"", "user"}).Draw(t, "user")
		rest := rapid.SampledFrom([]string{
			"", "h", "h:1", "h:1/0", "h/x", "h,i/m", "/s", "/s?db=x", "h?pool=3",
		}).Draw(t, "rest")

		raw := scheme + "://" + user + ":" + password + "@" + rest
		got, err := settings.ParseRedisURL(raw)
		if shown := fmt.Sprintf("%v %+v %#v", err, got, got); strings.Contains(shown, mark) {
			t.Fatalf("%s: shown in %s", raw, shown)
		}

		raw = scheme + "://" + user + ":" + url.QueryEscape(strings.ReplaceAll(password, " ", "_")) + "@h:1/1"
		if scheme == "redis" || scheme == "rediss" {
			got, err = settings.ParseRedisURL(raw)
			if err != nil || got.Options.Password != strings.ReplaceAll(password, " ", "_") ||
				got.Options.Username != user {
				t.Fatalf("%s: %v, %v", raw, got, err)
			}
		}
	})
}

func FuzzParseRedisURL(f *testing.F) {
	for _, raw := range []string{
		"redis://u:p@h:1/2?db=3&dial_timeout=1s", "unix://u:p@/s?db=1", "redis+cluster://h1:1,h2",
		"redis+sentinel://h,[::1]:2/m/1",
		"rediss://:p%40@h", "redis://@@:@/@?@", "redis://[", "redis+sentinel:///%",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := settings.ParseRedisURL(raw)
		if err != nil {
			if got != nil {
				t.Fatalf("both %s and %v", got, err)
			}
			return
		}
		o := got.Options
		if len(o.Addrs) == 0 || got.Kind == settings.RedisSingle && len(o.Addrs) != 1 || o.DB < 0 ||
			o.IsClusterMode != (got.Kind == settings.RedisCluster) ||
			(o.MasterName != "") != (got.Kind == settings.RedisSentinel) {
			t.Fatalf("%s %+v", got.Kind, *o)
		}
		if got.Kind == settings.RedisCluster && o.DB != 0 {
			t.Fatalf("a cluster with database %d", o.DB)
		}
	})
}

func ExampleParseRedisURL() {
	r, err := settings.ParseRedisURL("redis+sentinel://pacer:hunter2@s1,s2,s3/mymaster?dial_timeout=2s")
	fmt.Println(r, err)
	fmt.Println(r.Kind, r.Options.MasterName, r.Options.DialTimeout)
	// Output:
	// redis+sentinel://s1:26379,s2:26379,s3:26379/mymaster <nil>
	// sentinel mymaster 2s
}
