package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/providertest"
)

// The first digit of a device token tells the response to its first call; later ones are taken.
const (
	takes     = '0'
	isDead    = 'd'
	failsOnce = '5'
	throttles = '4'
	aborts    = 'e'
)

// faultyDevices are how the provider responds to them.
func faultyDevices() []providertest.Rule {
	rule := func(kind rune, first int, reply providertest.Reply) providertest.Rule {
		return providertest.Rule{Target: providertest.Matching("/3/device/" + string(kind)), First: first, Reply: reply}
	}
	return []providertest.Rule{
		rule(isDead, 0, providertest.Reply{Status: http.StatusGone, Body: `{"reason":"Unregistered"}`}),
		rule(failsOnce, 1, providertest.Reply{Status: http.StatusServiceUnavailable}),
		rule(throttles, 1, providertest.Reply{
			Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "2"},
		}),
		rule(aborts, 1, providertest.Reply{End: providertest.Aborts}),
	}
}

// A provider as it is: some devices are gone, some calls fail, are throttled or cut off. Every notification ends
// right, no dead device is tried twice, and nobody is called before the Retry-After.
func TestProviderWithAllItsFaults(t *testing.T) {
	t.Parallel()
	const n = 10_000
	provider := providertest.StartHTTP(t, providertest.HTTPConfig{}, faultyDevices()...)
	d := newDeployment(t, onRedis,
		"version: 1\ncategories: {default: {timeout: 1m}}\nretry: {max_attempts: 8, min_backoff: 50ms, max_backoff: 1s}\n", 0)
	s := d.settings()
	s.Channels.APNs.Key, s.Channels.APNs.Topic = providertest.SigningKey(t), "com.example.app"
	s.Channels.APNs.KeyID, s.Channels.APNs.TeamID = "ABCDEFGHIJ", "ABCDEFGHIJ"
	s.Channels.APNs.Endpoint = provider.URL
	d.startWith(s)
	// Each is registered as a device, so that dead ones are deactivated.
	kinds := map[byte]int64{}
	var items []item
	for i := range n {
		kind := byte(takes)
		switch i % 100 {
		case 0, 33, 66:
			kind = isDead
		case 5, 20, 40, 60, 80:
			kind = failsOnce
		case 10:
			kind = throttles
		case 50:
			kind = aborts
		}
		kinds[kind]++
		items = append(items, item{
			"user_id": fmt.Sprintf("u%d", i), "channel": "apns", "to": fmt.Sprintf("%c%063x", kind, i), "title": "x",
		})
	}
	for len(items) > 0 {
		part := items[:2500]
		items = items[2500:]
		d.bulk(part)
	}
	counts := d.awaitStats("all ended", func(s stats) bool { return s.Totals.Delivered+s.Totals.Failed == n })
	if counts.Totals.Failed != kinds[isDead] || counts.Totals.Delivered != n-kinds[isDead] {
		t.Errorf("%+v, want %d failed and the others delivered", counts.Totals, kinds[isDead])
	}
	called, early := map[string][]time.Time{}, 0
	for _, c := range provider.Calls(providertest.Called) {
		device := path.Base(c.Target)
		called[device] = append(called[device], c.At)
		if at := called[device]; device[0] == throttles && len(at) > 1 && c.At.Sub(at[0]) < 2*time.Second {
			early++
		}
	}
	if early != 0 || len(called) != n {
		t.Errorf("%d devices were called, %d before their Retry-After; want %d and 0", len(called), early, n)
	}
	for device, calls := range called {
		want := 1
		if device[0] != takes && device[0] != isDead {
			want = 2
		}
		// What was cut off may take others on its connection with it: those are asked again, as nobody knows of them.
		if len(calls) != want && (device[0] == isDead || len(calls) > want+2) {
			t.Errorf("device %.8s… was called %d times, want %d", device, len(calls), want)
		}
	}
}

// client is a connection to the deployment's Redis.
func (d *fleet) client() *redis.Client {
	d.t.Helper()
	options, err := redis.ParseURL(d.redisURL)
	if err != nil {
		d.t.Fatal(err)
	}
	client := redis.NewClient(options)
	d.t.Cleanup(func() { _ = client.Close() })
	return client
}

// logs is all that the processes have logged.
func (d *fleet) logs() string {
	var all strings.Builder
	for _, l := range d.processLogs {
		l.mu.Lock()
		all.Write(l.text)
		l.mu.Unlock()
	}
	return all.String()
}

// opsPage reads one of a process's ops pages, again while the stores are too slow for it.
func (d *fleet) opsPage(process *app.App, page string) string {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://"+process.OpsAddr()+page,
		http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	response, err := apitest.Client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(body)
}

// privateKeyOf is a part of a service account's secret.
func privateKeyOf(t *testing.T, credentials string) string {
	t.Helper()
	_, key, ok := strings.Cut(credentials, `BEGIN PRIVATE KEY-----\n`)
	if !ok {
		t.Fatal("no private key in the credentials")
	}
	return key[:40]
}

// dump is all that Redis holds, as text.
func (d *fleet) dump() string {
	d.t.Helper()
	var all strings.Builder
	client := d.client()
	ctx := d.t.Context()
	for _, key := range client.Keys(ctx, "*").Val() {
		all.WriteString(key + "\n")
		switch client.Type(ctx, key).Val() {
		case "string":
			all.WriteString(client.Get(ctx, key).Val())
		case "hash":
			fmt.Fprintln(&all, client.HGetAll(ctx, key).Val())
		case "list":
			fmt.Fprintln(&all, client.LRange(ctx, key, 0, -1).Val())
		case "set":
			fmt.Fprintln(&all, client.SMembers(ctx, key).Val())
		case "zset":
			fmt.Fprintln(&all, client.ZRangeWithScores(ctx, key, 0, -1).Val())
		}
	}
	return all.String()
}

// Credentials show nowhere, whatever goes wrong: not in logs, responses, ops pages, metrics or Redis.
func TestCredentialsNeverShow(t *testing.T) {
	t.Parallel()
	const emailPassword, vapid = "canarypassword11aa", "Y2FuYXJ5dmFwaWRrZXljYW5hcnl2YXBpZGtleTEyMzQ"
	const ntfyToken, smsToken = "tk_canarytoken31fe", "canarysms0123456789abcdef"
	const slackPath, teamsPath = "/services/T0/B0/canaryhook77d0AbCdEf", "/workflows/1?sig=canaryhook77d0AbCdEf"
	key := providertest.SigningKey(t)
	webhookSecret := "whsec_" + strings.Repeat("Q2FuYXJ5", 4)
	canaries := []string{
		"canaryproxy5c1d",
		emailPassword, vapid[:30], strings.Split(key, "\n")[1][:40], strings.TrimPrefix(webhookSecret, "whsec_"),
		"canaryaccess", ntfyToken, smsToken,
	}
	d := newDeployment(t, onRedis, crowdPolicy, 0)
	// A provider that repeats all that it was asked with, and refuses.
	status := http.StatusForbidden
	echo := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(r.URL.Path, "token") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"canaryaccess","expires_in":3600}`)
			return
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"reason":%q,"error":{"message":%q}}`, fmt.Sprint(r.Header), body)
	}))
	echo.EnableHTTP2 = true
	echo.StartTLS()
	t.Cleanup(echo.Close)
	s := d.settings()
	s.Channels.Webhook.Secret = webhookSecret
	s.Channels.APNs.Key, s.Channels.APNs.Topic = key, "com.example.app"
	s.Channels.APNs.KeyID, s.Channels.APNs.TeamID = "ABCDEFGHIJ", "ABCDEFGHIJ"
	s.Channels.APNs.Endpoint, s.Channels.FCM.Endpoint = echo.URL, echo.URL
	s.Channels.APNs.Proxy = strings.Replace(echo.URL, "https://", "http://pacer:canaryproxy5c1d@", 1)
	s.Channels.FCM.Credentials = providertest.ServiceAccount(t, echo.URL+"/token")
	s.Channels.WebPush.Key, s.Channels.WebPush.Subject = vapid, "mailto:ops@example.com"
	s.Channels.Email.Server, s.Channels.Email.Password = "smtp://pacer@127.0.0.1:1", emailPassword
	s.Channels.Email.From = "pacer@example.com"
	s.Channels.Ntfy.Server, s.Channels.Ntfy.Token = echo.URL, ntfyToken
	s.Channels.Slack.Hosts, s.Channels.Teams.Hosts = []string{"127.0.0.1"}, []string{"127.0.0.1"}
	s.Channels.SMS.Account, s.Channels.SMS.Token, s.Channels.SMS.From = "AC0123456789", smsToken, "+15005550006"
	s.Channels.SMS.Endpoint = echo.URL
	canaries = append(canaries, privateKeyOf(t, s.Channels.FCM.Credentials))
	// A sender with a name, whose token is rotated, and cut off at last.
	canaries = append(canaries, "tk_canaryfile1", "tk_canaryfile2")
	secrets := mount(t, map[string]string{"token": "tk_canaryfile1"})
	named := d.read(nil, "channels:", "  ntfy:alerts: {server: 'https://ntfy.example', token: '"+secrets.at("token")+"'}")
	s.Channels.Named, s.Channels.AsSet = named.Channels.Named, named.Channels.AsSet
	s.Channels.Files = named.Channels.Files
	process := d.startWith(s)
	secrets.swap(map[string]string{"token": "tk_canaryfile2"})
	d.awaitLog("the new value is in force", 1)
	secrets.swap(map[string]string{"token": ""})
	d.awaitLog("keeping the value in force", 1)
	subscription := `{"endpoint":"` + echo.URL + `/push","keys":{"p256dh":"BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM","auth":"tBHItJI5svbpez7KI4CCXg"}}`
	var ids []string
	for channel, to := range map[string]string{
		"apns": strings.Repeat("ab",
			32), "fcm": "token", "webpush": subscription, "email": "ada@example.com", "webhook": echo.URL + "/hook",
		"ntfy": "alerts", "slack": echo.URL + slackPath, "teams": echo.URL + teamsPath,
		"sms": "+15551234567",
	} {
		ids = append(ids, d.bulk([]item{{"user_id": "ada-" + channel, "channel": channel, "to": to, "title": "x"}})...)
	}
	d.awaitStats("each was tried and got a response", func(s stats) bool {
		return s.Totals.Attempts >= int64(len(ids)) && s.Queued == 0 && s.Sending == 0
	})
	shown := map[string]string{"Redis": d.dump(), "settings": fmt.Sprintf("%v %+v %#v", s, s, s), "log": d.logs()}
	for _, page := range []string{
		"/metrics", "/channels", "/readyz", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2",
		"/debug/pprof/heap?debug=1",
	} {
		shown[page] = d.opsPage(process, page)
	}
	for _, id := range ids {
		var v any
		d.call(http.MethodGet, "/v1/notifications/"+id, nil, nil, &v)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		shown["notification"] += string(text)
		shown["explain"] += d.opsPage(process, "/explain/"+id)
	}
	for where, text := range shown {
		if len(text) == 0 {
			t.Errorf("nothing was looked at: %s", where)
		}
		for _, canary := range canaries {
			if strings.Contains(text, canary) {
				t.Errorf("%s shows %q", where, canary)
			}
		}
		// Redis keeps the target, and the API shows it to whoever may send to it. Nobody else has to know it.
		if strings.Contains(text, "canaryhook77d0") && where != "Redis" && where != "notification" {
			t.Errorf("%s shows the URL of the webhook of Slack or Teams", where)
		}
	}
	if !strings.Contains(shown["log"], "refuses this deployment's credentials") {
		t.Errorf("the log does not say that credentials are refused")
	}
}
