//go:build accept

package e2e_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/redistest"
)

// firebase is FCM, with an app whose APNs key is wrong: it takes what is for Android, and refuses what is for iOS.
type firebase struct {
	server      *httptest.Server
	credentials string

	mu      sync.Mutex
	arrived map[string]time.Time // by token
	refused int
}

func newFirebase(t *testing.T) *firebase {
	t.Helper()
	f := &firebase{arrived: map[string]time.Time{}}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "demo", "client_email": "pacer@example.com",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri":   f.server.URL + "/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	f.credentials = string(text)
	return f
}

// ServeHTTP implements [http.Handler].
func (f *firebase) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/token" {
		_, _ = io.WriteString(w, `{"access_token":"t","expires_in":3600,"token_type":"Bearer"}`)
		return
	}
	var sent struct{ Message struct{ Token string } }
	_ = json.NewDecoder(r.Body).Decode(&sent)
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(sent.Message.Token, "ios") {
		f.refused++
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError",`+
			`"errorCode":"THIRD_PARTY_AUTH_ERROR"}]}}`)
		return
	}
	f.arrived[sent.Message.Token] = now
	_, _ = io.WriteString(w, `{"name":"projects/demo/messages/1"}`)
}

// env leads a dispatcher to it.
func (f *firebase) env(t *testing.T) []string {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	if err := os.WriteFile(roots, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"SSL_CERT_FILE=" + roots, "PACER_FCM_CREDENTIALS=" + f.credentials, "PACER_FCM_ENDPOINT=" + f.server.URL,
	}
}

// Beside 900 hosts that hang and a platform whose credential is refused, healthy deliveries take at most one and a half
// times as long as without: to a webhook, and to the platform of the same provider whose credential is right.
func TestHealthyDeliveriesBesideBadOnes(t *testing.T) {
	const pace, wave, measured = 100 * time.Millisecond, 10, 20 * time.Second
	server, provider, r := redistest.Start(t), newFirebase(t), newReceiver(t)
	d := &deployment{
		t: t, redis: server, url: server.URL(), env: provider.env(t),
		policy: policyFile(t, "version: 1\ncategories: {default: {limits: []}}\n"),
	}
	d.workers = append(d.workers, d.start())
	accepted := map[string]time.Time{}
	measure := func(prefix string) (p50, p90 time.Duration) {
		var names []string
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for begin := time.Now(); time.Since(begin) < measured; <-ticker.C {
			items := make([]item, 0, 2*wave)
			for i := range wave {
				name := fmt.Sprintf("%s-%d-%d", prefix, len(names), i)
				items = append(items, item{UserID: "web-" + name, To: r.server.URL},
					item{UserID: "app-" + name, To: "android-" + name, Channel: "fcm"})
			}
			for _, one := range items {
				accepted[one.UserID] = time.Now()
				names = append(names, one.UserID)
			}
			d.accept(d.workers[0], items)
		}
		return percentiles(t, names, accepted, r, provider)
	}
	measure("warm-up")
	p50, p90 := measure("alone")

	hang := newHanging(t, "0.0.0.0:0")
	_, port, _ := net.SplitHostPort(hang.listener.Addr().String())
	stop, bad := make(chan struct{}), sync.WaitGroup{}
	bad.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for second := 0; ; second++ {
			items := make([]item, 0, 70)
			for i := range 60 {
				host := (second*60 + i) % 900
				items = append(items, item{
					UserID: fmt.Sprint("hangs-", second, "-", i),
					To:     fmt.Sprintf("http://127.0.%d.%d:%s/", 1+host/200, 1+host%200, port),
				})
			}
			for i := range 10 {
				name := fmt.Sprint("ios-", second, "-", i)
				items = append(items, item{UserID: name, To: name, Channel: "fcm"})
			}
			d.accept(d.workers[0], items)
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	})
	measure("begin") // until the hanging calls are there
	// A machine that is busy with other things stalls both, but not evenly. What a defect costs, it costs each time.
	const times, allowance = 3, 25 * time.Millisecond
	within := false
	for n := 0; n < times && !within; n++ {
		beside50, beside90 := measure(fmt.Sprint("beside", n))
		t.Logf("healthy deliveries took %s (p50) and %s (p90) alone, %s and %s beside %d calls to 900 hanging hosts and %d "+
			"refusals of one platform's credential: %.2f and %.2f times as long", p50, p90, beside50, beside90,
			hang.calls.Load(), provider.refusals(), float64(beside50)/float64(p50), float64(beside90)/float64(p90))
		within = beside50 <= p50*3/2+allowance && beside90 <= p90*3/2+allowance
	}
	close(stop)
	bad.Wait()
	if !within {
		t.Errorf("%d times outside the bound: 1.5 times as long", times)
	}
}

// refusals counts what was refused.
func (f *firebase) refusals() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// percentiles waits until all have arrived, and tells how long half and nine tenths of them took at most.
func percentiles(t *testing.T, names []string, accepted map[string]time.Time, r *receiver, provider *firebase,
) (p50, p90 time.Duration) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		arrived := map[string]time.Time{}
		for _, got := range r.deliveries() {
			arrived[got.User] = got.Arrived
		}
		provider.mu.Lock()
		for token, at := range provider.arrived {
			arrived[strings.Replace(token, "android-", "app-", 1)] = at
		}
		provider.mu.Unlock()
		took := make([]time.Duration, 0, len(names))
		for _, name := range names {
			if at, ok := arrived[name]; ok {
				took = append(took, at.Sub(accepted[name]))
			}
		}
		if len(took) == len(names) {
			slices.Sort(took)
			return took[len(took)/2], took[len(took)*9/10]
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d healthy ones have arrived", len(took), len(names))
		}
		<-time.After(50 * time.Millisecond)
	}
}
