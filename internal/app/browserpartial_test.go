package app_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/pacer-notify/pacer/test/redistest"
)

// What is looked up or listed while Redis does not respond says so, and becomes whole without being asked for again.
func TestPagesBecomeWholeInABrowser(t *testing.T) {
	t.Parallel()
	redis, r := redistest.Start(t), newReceiver(t)
	d := newDeploymentOn(t, onPostgres, redis.URL())
	d.writePolicy(nightNow("Europe/Vienna"))
	d.start()
	id := d.bulk(r.crowd("ada", "default", 1))[0]
	d.awaitStats("it waits", func(s stats) bool { return s.Deferred == 1 })
	ops := "http://" + d.apps[0].OpsAddr()
	user, one, list := openTab(t, ops+"/"), openTab(t, ops+"/"), openTab(t, ops+"/list.html")
	list.Await("document.querySelector('#items').rows.length === 1")

	redis.Freeze()
	user.Navigate(ops + "/?q=ada")
	one.look(id)
	list.Navigate(ops + "/list.html?user=ada")
	const found = "document.querySelector('#found-body').textContent"
	user.Await(found + ".includes('Redis does not respond')")
	one.Await(found + ".includes('Redis does not respond')")
	list.Await("document.querySelector('#note').textContent.startsWith('Redis did not respond in time')")
	redis.Thaw()

	const until = "/quiet hours until [0-9:]+ Europe.Vienna/.test"
	user.Await(until + "(" + found + ")")
	one.Await(until + "(" + found + ")")
	list.Await(until + "(document.querySelector('#items').textContent)")
	list.Await("document.querySelector('#connection').textContent.startsWith('loaded')")
	if !eval[bool](one, "document.activeElement === document.body") {
		t.Error("reading again moved the focus")
	}
	one.Navigate(ops + "/?page=system")
	one.Await("document.querySelector('#audit').rows.length === 1")
	one.Await("document.querySelector('#connection').textContent.startsWith('live')")
}

// A browser gives a stream up for good when a proxy responds in place of the process. The dashboard begins another.
func TestTheDashboardComesBackBehindAProxy(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, browserPolicy, 1)
	process, err := url.Parse("http://" + d.apps[0].OpsAddr())
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Bool
	forward := httputil.NewSingleHostReverseProxy(process)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" && !refused.Swap(true) {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	b := openTab(t, proxy.URL+"/")
	b.Await("document.querySelector('#connection').textContent.startsWith('live')")
	if !refused.Load() {
		t.Error("the stream was never refused")
	}
}
