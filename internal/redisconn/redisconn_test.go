package redisconn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/redisconn"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func at(t *testing.T, url string) *settings.Redis {
	t.Helper()
	where, err := settings.ParseRedisURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return where
}

// open connects, and closes the connection at the test's end.
func open(t *testing.T, where *settings.Redis, opener redisconn.Opener) *redisconn.Conn {
	t.Helper()
	conn, err := redisconn.Open(t.Context(), where, opener, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func TestBothClientsReachTheSameRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		where *settings.Redis
	}{
		{name: "Embedded"},
		{name: "Server", where: at(t, redistest.URL(t))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := open(t, c.where, nil)
			if err := conn.Pipe.Set(t.Context(), "key", "value", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := conn.Client.Get(t.Context(), "key").Result(); got != "value" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestAnOpenerMakesTheClient(t *testing.T) {
	t.Parallel()
	made := 0
	open(t, at(t, redistest.URL(t)), func(options *redis.UniversalOptions) redis.UniversalClient {
		made++
		return redis.NewUniversalClient(options)
	})
	if made != 1 {
		t.Errorf("the opener was called %d times, want once", made)
	}
}

func TestARedisThatPacerCannotWorkOnIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		// rights are those of the user; the server's default user without.
		rights []string
		says   string
	}{
		{
			name: "Evicting", args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			says: "set maxmemory-policy noeviction",
		},
		{name: "NoInfo", rights: []string{"~*", "+@all", "-info"}, says: "lacks rights on Redis"},
		{name: "NoScripts", rights: []string{"~*", "+@all", "-eval", "-evalsha"}, says: "lacks rights on Redis"},
		{name: "NoKeys", rights: []string{"~other:*", "+@all"}, says: "lacks rights on Redis"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, c.args...)
			url := server.URL()
			if c.rights != nil {
				command := []any{"ACL", "SETUSER", "pacer", "on", ">secret"}
				for _, right := range c.rights {
					command = append(command, right)
				}
				if err := server.Client(t).Do(t.Context(), command...).Err(); err != nil {
					t.Fatal(err)
				}
				url = strings.Replace(url, "redis://", "redis://pacer:secret@", 1)
			}
			_, err := redisconn.Open(t.Context(), at(t, url), nil, nil)
			if _, refused := errors.AsType[*refusal.Error](err); !refused || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a refusal that says %q", err, c.says)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%v shows the password", err)
			}
		})
	}
}

func TestFieldsOfInfo(t *testing.T) {
	t.Parallel()
	info := "# Server\r\nredis_version:7.2.4\r\nmaxmemory_policy:noeviction\r\n"
	for name, want := range map[string]string{"redis_version": "7.2.4", "version": "", "uptime": ""} {
		if got := redisconn.Field(info, name); got != want {
			t.Errorf("field %s is %q, want %q", name, got, want)
		}
	}
	if got := redisconn.EvictionPolicy(info); got != "noeviction" {
		t.Errorf("eviction policy %q", got)
	}
}

func TestMissingRightsAreSaidInRedisOwnWords(t *testing.T) {
	t.Parallel()
	if redisconn.NotPermitted(nil) || redisconn.NotPermitted(errors.New("i/o timeout")) {
		t.Error("neither nothing nor a time-out is a missing right")
	}
	denied := errors.New("settle: NOPERM User pacer has no permissions to run the 'evalsha' command")
	if !redisconn.NotPermitted(denied) {
		t.Fatal("NOPERM is a missing right")
	}
	want := "the user of REDIS_URL lacks rights on Redis (User pacer has no permissions to run the 'evalsha' command): " +
		"docs/operate.md lists those that pacer needs"
	if got := redisconn.RefuseRights(denied).Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
