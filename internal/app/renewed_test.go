package app_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/apitest"
)

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
	secrets := mount(t, map[string]string{"api": "canary-one", "ops": "canary-ops1", "redis": d.redisURL})
	process := d.startWith(d.read([]string{
		"PACER_API_TOKENS=" + secrets.at("api"), "PACER_OPS_TOKEN=" + secrets.at("ops"),
		"REDIS_URL=" + secrets.at("redis"),
	}))
	api := func(token string) int { return status(t, http.MethodGet, "http://"+process.Addr()+"/v1/stats", token) }
	ops := func(token string) int {
		return status(t, http.MethodPost, "http://"+process.OpsAddr()+"/actions", token)
	}
	if api("canary-one") != http.StatusOK || api("canary-two") != http.StatusUnauthorized ||
		ops("canary-ops1") == http.StatusUnauthorized || ops("canary-ops2") != http.StatusUnauthorized {
		t.Fatal("the first tokens do not work, or others do")
	}
	secrets.swap(map[string]string{"api": "canary-one\ncanary-two\n", "ops": "canary-ops2", "redis": d.redisURL})
	d.awaitLog("the new value is in force", 2)
	if api("canary-one") != http.StatusOK || api("canary-two") != http.StatusOK ||
		ops("canary-ops1") != http.StatusUnauthorized || ops("canary-ops2") == http.StatusUnauthorized {
		t.Error("want both tokens of the API, and the new one of the ops pages")
	}
	secrets.swap(map[string]string{"api": "canary-two", "ops": "", "redis": "redis://pacer:canary-new@127.0.0.1:1"})
	d.awaitLog("the new value is in force", 3)
	d.awaitLog("keeping the value in force", 1)
	if api("canary-one") != http.StatusUnauthorized || api("canary-two") != http.StatusOK ||
		ops("canary-ops2") == http.StatusUnauthorized {
		t.Error("want the new token of the API alone, and the one that the ops pages had")
	}
	d.awaitPage(process, "/metrics", `pacer_secret_refused{secret="ops-token"} 1`)
	d.awaitPage(process, "/metrics", `pacer_secret_refused{secret="redis-url"} 1`) // it names another Redis
	if shown := d.logs() + d.opsPage(process, "/metrics") + d.dump(); strings.Contains(shown, "canary") {
		t.Error("a token shows")
	}
}

// Two senders of one kind, each with its own server and token. The token of one is refused: what is for that sender
// waits, and the other sender is unharmed. With the right token in its file, what waits goes out at once, not only when
// it would have been tried again.
func TestTwoSendersOfOneKind(t *testing.T) {
	t.Parallel()
	const n = 20
	server := func(token string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		t.Cleanup(s.Close)
		return s
	}
	shop, news := server("tk_right"), server("tk_news")
	d := newDeployment(t, onPostgres, "version: 1\ncategories: {default: {limits: []}}\n", 0)
	secrets := mount(t, map[string]string{"shop": "tk_wrong"})
	s := d.read(nil, "channels:",
		"  ntfy:shop: {server: '"+shop.URL+"', token: '"+secrets.at("shop")+"'}",
		"  ntfy:news: {server: '"+news.URL+"', token: tk_news}")
	s.DatabaseURL, s.Setup = d.databaseURL, d.settings().Setup
	process := d.startWith(s)
	d.ask(http.MethodPut, "/v1/users/ada/preferences", `{"opt_out":{"channels":["ntfy:news"]}}`)
	unwanted := d.bulk([]item{{"user_id": "ada", "channel": "ntfy:news", "to": "alerts", "title": "x"}})[0]
	var items []item
	for range n {
		for _, channel := range []string{"ntfy:shop", "ntfy:news"} {
			items = append(items, item{"user_id": "ben", "channel": channel, "to": "alerts", "title": "x"})
		}
	}
	d.bulk(items)
	d.awaitStats("the news are delivered, and the shop waits", func(s stats) bool {
		return s.Totals.Delivered == n && s.Retrying == n && s.Queued+s.Sending == 0
	})
	d.awaitView(unwanted, "cancelled", "opted_out")
	d.awaitPage(process, "/metrics", `pacer_deliveries_total{channel="ntfy:news",outcome="delivered"} 20`)
	d.awaitPage(process, "/channels", `"ntfy:shop"`)
	secrets.swap(map[string]string{"shop": "tk_right"})
	d.awaitStats("the shop is delivered", func(s stats) bool { return s.Totals.Delivered == 2*n })
	if strings.Contains(d.logs()+d.opsPage(process, "/metrics")+d.dump(), "tk_") {
		t.Error("a token shows")
	}
}
