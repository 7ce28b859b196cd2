package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/test/providertest"
)

// A proxy that refuses costs no attempt and no slot: with one attempt and one slot an hour each notification is
// delivered as soon as the proxy lets it through. The log names the setting, and not the password in it.
func TestAProxyThatRefusesCostsNothing(t *testing.T) {
	t.Parallel()
	const n = 20
	provider, proxy := providertest.StartHTTP(t, providertest.HTTPConfig{}), pushtest.StartProxy(t, false)
	d := newDeployment(t, onRedis, "version: 1\ncategories: {default: {limits: [{max: 1, per: 1h}]}}\n"+
		"retry: {max_attempts: 1, min_backoff: 50ms, max_backoff: 1s}\n", 0)
	s := d.settings()
	s.Channels.APNs.Key, s.Channels.APNs.Topic = providertest.SigningKey(t), "com.example.app"
	s.Channels.APNs.KeyID, s.Channels.APNs.TeamID = "ABCDEFGHIJ", "ABCDEFGHIJ"
	s.Channels.APNs.Endpoint, s.Channels.APNs.Proxy = provider.URL, proxy.URL().Reveal()
	proxy.Refuse(http.StatusBadGateway)
	process := d.startWith(s)
	var items []item
	for i := range n {
		items = append(items, item{
			"user_id": fmt.Sprintf("u%d", i), "channel": "apns", "to": fmt.Sprintf("%064x", i), "title": "x",
		})
	}
	d.bulk(items)
	d.awaitLogs("the proxy of --apns-proxy (PACER_APNS_PROXY) responds with 502", 1)
	if page := d.opsPage(process, "/channels"); !strings.Contains(page, "proxy.502") {
		t.Errorf("the channels do not tell of the proxy: %s", page)
	}
	proxy.Refuse(0)
	d.awaitStats("all delivered", func(s stats) bool { return s.Totals.Delivered == n })
	if calls := provider.Calls(providertest.Called); len(calls) != n {
		t.Errorf("%d calls, want %d", len(calls), n)
	}
	if strings.Contains(d.logs(), pushtest.ProxyPassword) {
		t.Error("the log shows the proxy's password")
	}
}
