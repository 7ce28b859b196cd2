package app_test

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/redistest"
)

// documentedRights is the command of docs/operate.md that makes a user with the least rights, without ACL SETUSER
// pacer.
func documentedRights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ACL SETUSER pacer (.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/operate.md does not say which rights pacer needs")
	}
	return strings.Fields(string(found[1]))
}

// asUser makes a user with these rights, and gives the URL under which a process is it.
func asUser(t *testing.T, redis *redistest.Server, rights ...string) (url string, admin *goredis.Client) {
	t.Helper()
	options, err := goredis.ParseURL(redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin = goredis.NewClient(options)
	t.Cleanup(func() { _ = admin.Close() })
	command := []any{"ACL", "SETUSER", "pacer"}
	for _, right := range rights {
		command = append(command, right)
	}
	if err := admin.Do(t.Context(), command...).Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(redis.URL(), "redis://", "redis://pacer:PASSWORD@", 1), admin
}

// With the rights that the documentation lists everything works, and Redis notes no refusal.
func TestLeastRightsOnRedis(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			url, admin := asUser(t, redis, documentedRights(t)...)
			d, r := newDeploymentOn(t, on, url), newReceiver(t)
			d.writePolicy(crowdPolicy)
			d.start()
			d.start()
			d.bulk(append(r.crowd("ada", "default", 20), r.crowd("ben", "slow", 2)...))
			r.await(t, 21)
			d.awaitStats("one deferred", func(s stats) bool { return s.Deferred == 1 && s.Totals.Delivered == 21 })
			for _, path := range []string{"/metrics", "/readyz", "/user/ada", "/audit", "/channels"} {
				if status, body := page(t, d.apps[0], path); status != 200 {
					t.Errorf("%s: %d %s", path, status, body)
				}
			}
			d.act(d.apps[0], 200, ops.Action{Action: "pause", Kind: "partition", Name: "1"})
			d.act(d.apps[0], 200, ops.Action{Action: "resume", Kind: "partition", Name: "1"})
			if on == onPostgres {
				if _, err := deployment.Rebuild(t.Context(), d.settings(), slog.New(slog.DiscardHandler)); err != nil {
					t.Error(err)
				}
			}
			for _, process := range d.apps {
				if err := process.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
			refusals, err := admin.ACLLog(t.Context(), 20).Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, refused := range refusals {
				t.Errorf("Redis refused %s: %s %s", refused.Reason, refused.Context, refused.Object)
			}
		})
	}
}

// A right that is missing is named in one sentence, at once.
func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ take, says string }{
		{take: "-info", says: "info"},
		{take: "-evalsha -eval", says: "eval"},
		{take: "resetkeys", says: "keys"},
		{take: "-setnx -set", says: "set"},
	} {
		t.Run(c.take, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			url, _ := asUser(t, redis, append(documentedRights(t), strings.Fields(c.take)...)...)
			d := newDeploymentOn(t, onRedis, url)
			d.writePolicy(crowdPolicy)
			_, err := app.New(t.Context(), d.settings(), slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), "lacks rights on Redis") ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("the process says: %v", err)
			}
		})
	}
}
