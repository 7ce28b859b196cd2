package app_test

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

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
func asUser(t *testing.T, redis *redistest.Server, name string, rights ...string) (url string) {
	t.Helper()
	command := []any{"ACL", "SETUSER", name}
	for _, right := range rights {
		command = append(command, right)
	}
	if err := redis.Client(t).Do(t.Context(), command...).Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(redis.URL(), "redis://", "redis://"+name+":PASSWORD@", 1)
}

// With the rights that the documentation lists everything works, and Redis notes no refusal.
func TestLeastRightsOnRedis(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			url := asUser(t, redis, "pacer", documentedRights(t)...)
			d, r := newDeploymentOn(t, on, url), newReceiver(t)
			d.writePolicy(crowdPolicy)
			d.start()
			d.start()
			d.bulk(append(r.crowd("ada", "default", 20), r.crowd("ben", "slow", 2)...))
			d.awaitStats("one deferred", func(s stats) bool { return s.Deferred == 1 && s.Totals.Delivered == 21 })
			for _, path := range []string{"/metrics", "/readyz", "/user/ada", "/audit", "/channels"} {
				d.opsPage(d.apps[0], path)
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
			refusals, err := redis.Client(t).ACLLog(t.Context(), 20).Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, refused := range refusals {
				t.Errorf("Redis refused %s: %s %s", refused.Reason, refused.Context, refused.Object)
			}
		})
	}
}
