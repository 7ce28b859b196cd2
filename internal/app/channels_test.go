package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/test/providertest"
)

// privateKeyOf is a part of a service account's secret.
func privateKeyOf(t *testing.T, credentials string) string {
	t.Helper()
	_, key, ok := strings.Cut(credentials, `BEGIN PRIVATE KEY-----\n`)
	if !ok {
		t.Fatal("no private key in the credentials")
	}
	return key[:40]
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
