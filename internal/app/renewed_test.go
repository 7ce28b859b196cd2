package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// unlimited lets everything go at once, and providers take a minute.
const unlimited = "version: 1\ncategories: {default: {limits: [], timeout: 1m}, crowd: {limits: [], timeout: 1m}}\n"

// read are the settings of a process with an environment and a settings file, on free ports.
func (d *fleet) read(environ []string, file ...string) *settings.Resolved {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(file, "\n")), 0o600); err != nil {
		d.t.Fatal(err)
	}
	var program struct{ settings.Server }
	parser, err := settings.NewParser(&program, "dispatcher", "", settings.Environ(environ))
	if err == nil {
		_, err = settings.Parse(parser, []string{"--config=" + path})
	}
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := program.Resolve()
	if err != nil {
		d.t.Fatal(err)
	}
	usual := d.settings()
	if s.Redis == nil {
		s.Redis, s.Setup = usual.Redis, usual.Setup
	}
	s.Listen, s.OpsListen, s.Policy, s.Partitions = usual.Listen, usual.OpsListen, usual.Policy, usual.Partitions
	s.WebhookAllow = usual.WebhookAllow
	return s
}

// mounted is a folder with secrets as Kubernetes shows it: links to a folder that it replaces as a whole.
type mounted struct {
	t        *testing.T
	dir      string
	versions int
}

func mount(t *testing.T, files map[string]string) *mounted {
	t.Helper()
	m := &mounted{t: t, dir: t.TempDir()}
	m.swap(files)
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// at is the setting that names a file of the folder.
func (m *mounted) at(name string) string { return "file:" + filepath.Join(m.dir, name) }

// swap has the folder show other files.
func (m *mounted) swap(files map[string]string) {
	m.t.Helper()
	m.versions++
	version := ".." + strings.Repeat("v", m.versions)
	errs := []error{os.Mkdir(filepath.Join(m.dir, version), 0o700)}
	for name, text := range files {
		errs = append(errs, os.WriteFile(filepath.Join(m.dir, version, name), []byte(text), 0o600))
	}
	next, current := filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")
	for _, err := range append(errs, os.Symlink(version, next), os.Rename(next, current)) {
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

// awaitPage waits until an ops page of a process shows a text.
func (d *fleet) awaitPage(process *app.App, page, text string) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for shown := d.opsPage(process, page); !strings.Contains(shown, text); shown = d.opsPage(process, page) {
		if time.Now().After(deadline) {
			d.t.Fatalf("%s never showed %q: %s", page, text, shown)
		}
		<-ticker.C
	}
}

// awaitLog waits until a process has logged a text so many times.
func (d *fleet) awaitLog(text string, times int) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for strings.Count(d.logs(), text) < times {
		if time.Now().After(deadline) {
			d.t.Fatalf("nobody logged %q %d times", text, times)
		}
		<-ticker.C
	}
}

// status is what a process responds with to a request under a token.
func status(t *testing.T, method, url, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := apitest.Once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // its status is all that is asked for
	return response.StatusCode
}

// Tokens are rotated without a restart: the new one works beside the old one, and then alone.
func TestTokensAreRotated(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 0)
	secrets := mount(t, map[string]string{"api": "canary-one", "ops": "canary-ops1"})
	process := d.startWith(d.read([]string{
		"PACER_API_TOKENS=" + secrets.at("api"), "PACER_OPS_TOKEN=" + secrets.at("ops"),
	}))
	api := func(token string) int { return status(t, http.MethodGet, "http://"+process.Addr()+"/v1/stats", token) }
	ops := func(token string) int {
		return status(t, http.MethodPost, "http://"+process.OpsAddr()+"/actions", token)
	}
	if api("canary-one") != http.StatusOK || api("canary-two") != http.StatusUnauthorized ||
		ops("canary-ops1") == http.StatusUnauthorized || ops("canary-ops2") != http.StatusUnauthorized {
		t.Fatal("the first tokens do not work, or others do")
	}
	secrets.swap(map[string]string{"api": "canary-one\ncanary-two\n", "ops": "canary-ops2"})
	d.awaitLog("the new value is in force", 2)
	if api("canary-one") != http.StatusOK || api("canary-two") != http.StatusOK ||
		ops("canary-ops1") != http.StatusUnauthorized || ops("canary-ops2") == http.StatusUnauthorized {
		t.Error("want both tokens of the API, and the new one of the ops pages")
	}
	secrets.swap(map[string]string{"api": "canary-two", "ops": ""})
	d.awaitLog("the new value is in force", 3)
	d.awaitLog("keeping the value in force", 1)
	if api("canary-one") != http.StatusUnauthorized || api("canary-two") != http.StatusOK ||
		ops("canary-ops2") == http.StatusUnauthorized {
		t.Error("want the new token of the API alone, and the one that the ops pages had")
	}
	d.awaitPage(process, "/metrics", `pacer_secret_refused{secret="ops-token"} 1`)
	if shown := d.logs() + d.opsPage(process, "/metrics") + d.dump(); strings.Contains(shown, "canary") {
		t.Error("a token shows")
	}
}

// deliver has some notifications delivered to the receiver, each by one attempt.
func (d *fleet) deliver(r *receiver, user string, n int) {
	d.t.Helper()
	before := d.stats().Totals
	items := r.crowd(user, "crowd", n)
	for i := range items {
		items[i]["id"] = fmt.Sprintf("%s-%d", user, i)
	}
	body, err := json.Marshal(items)
	if err != nil {
		d.t.Fatal(err)
	}
	// A producer repeats what the API could not accept: an operator cuts connections here.
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for d.call(http.MethodPost, "/v1/notifications/bulk", body, nil, nil) != http.StatusOK {
		<-ticker.C
	}
	d.awaitStats("all delivered", func(s stats) bool {
		return s.Totals.Delivered == before.Delivered+int64(n) && s.Totals.Failed == before.Failed
	})
}

// The password of Redis is rotated: first it accepts both, then only the new one, and all old connections end.
func TestThePasswordOfRedisIsRotated(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	_, admin := asUser(t, redis, "on", ">canary-old", "~*", "&*", "+@all")
	d, r := newDeploymentOn(t, onRedis, redis.URL()), newReceiver(t)
	d.writePolicy(unlimited)
	with := func(password string) map[string]string {
		return map[string]string{"url": strings.Replace(redis.URL(), "redis://", "redis://pacer:"+password+"@", 1)}
	}
	secrets := mount(t, with("canary-old"))
	process := d.startWith(d.read([]string{"REDIS_URL=" + secrets.at("url")}))
	d.deliver(r, "ada", 50)

	secrets.swap(with("canary-new")) // before Redis knows it
	d.awaitPage(process, "/metrics", `pacer_secret_refused{secret="redis-url"} 1`)
	d.deliver(r, "ben", 50)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "pacer", ">canary-new").Err(); err != nil {
		t.Fatal(err)
	}
	d.awaitLog("the new value is in force", 1)
	for _, command := range [][]any{{"ACL", "SETUSER", "pacer", "<canary-old"}, {"CLIENT", "KILL", "USER", "pacer"}} {
		if err := admin.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	d.deliver(r, "cleo", 50)
	if got := len(r.got()); got != 150 {
		t.Errorf("%d arrived, want 150", got)
	}
	secrets.swap(map[string]string{"url": "redis://pacer:canary-new@127.0.0.1:1"})
	d.awaitLog("names another Redis", 1)
	if shown := d.logs() + d.opsPage(process, "/metrics") + d.dump(); strings.Contains(shown, "canary") {
		t.Error("a password shows")
	}
}

// The password of Postgres is rotated, which accepts one at a time, and all old connections end.
func TestThePasswordOfPostgresIsRotated(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	server.Exec("CREATE ROLE app LOGIN SUPERUSER PASSWORD 'canary-old'")
	server.Migrate()
	rules := "local all all trust\nhost all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
	if err := os.WriteFile(filepath.Join(server.Data(), "pg_hba.conf"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Exec("SELECT pg_reload_conf()")
	d, r := newDeploymentOn(t, onRedis, redistest.URL(t)), newReceiver(t)
	d.writePolicy(unlimited)
	with := func(password string) map[string]string {
		user, _, _ := strings.Cut(strings.TrimPrefix(server.URL(), "postgres://"), "@")
		return map[string]string{"url": strings.Replace(server.URL(), user+"@", "app:"+password+"@", 1)}
	}
	secrets := mount(t, with("canary-old"))
	s := d.read([]string{"DATABASE_URL=" + secrets.at("url")})
	s.Setup = settings.SetupDurable
	process := d.startWith(s)
	d.deliver(r, "ada", 50)

	secrets.swap(with("canary-new")) // before Postgres knows it
	d.awaitPage(process, "/metrics", `pacer_secret_refused{secret="database-url"} 1`)
	d.deliver(r, "ben", 50)
	server.Exec("ALTER ROLE app PASSWORD 'canary-new'")
	d.awaitLog("the new value is in force", 1)
	server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
	d.deliver(r, "cleo", 50)
	if shown := d.logs() + d.opsPage(process, "/metrics") + d.dump(); strings.Contains(shown, "canary") {
		t.Error("a password shows")
	}
}
