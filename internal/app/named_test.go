package app_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/pacer-notify/pacer/test/providertest"
)

// fcmFake is FCM as one app's project sees it. It accepts service accounts by the ids of their keys.
type fcmFake struct {
	server *httptest.Server

	mu    sync.Mutex
	keys  map[string]bool
	taken map[string]int // by device
}

func newFCMFake(t *testing.T, keys ...string) *fcmFake {
	t.Helper()
	f := &fcmFake{keys: map[string]bool{}, taken: map[string]int{}}
	f.accept(keys...)
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	return f
}

// accept has it accept these keys alone.
func (f *fcmFake) accept(keys ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.keys)
	for _, key := range keys {
		f.keys[key] = true
	}
}

// keyOf is the id of the key that signed a request for a token.
func keyOf(r *http.Request) string {
	head, _, _ := strings.Cut(r.PostFormValue("assertion"), ".")
	text, _ := base64.RawURLEncoding.DecodeString(head)
	var header struct{ Kid string }
	_ = json.Unmarshal(text, &header) // without an id no key is accepted
	return header.Kid
}

func (f *fcmFake) serve(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil { // the sender has given up
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.Contains(r.URL.Path, "token") {
		key := keyOf(r)
		w.Header().Set("Content-Type", "application/json")
		if !f.keys[key] {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600}`, "canaryaccess."+key)
		return
	}
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), "canaryaccess.")
	if !f.keys[key] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var body struct{ Message struct{ Token string } }
	if err := json.Unmarshal(text, &body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.taken[body.Message.Token]++
	_, _ = io.WriteString(w, `{"name":"projects/demo/messages/1"}`)
}

// devices are how many got something, and those that got more than one thing.
func (f *fcmFake) devices() (n int, repeated []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for device, times := range f.taken {
		if times > 1 {
			repeated = append(repeated, device)
		}
	}
	return len(f.taken), repeated
}

// account is a service account whose key has an id.
func (f *fcmFake) account(t *testing.T, key string) string {
	t.Helper()
	return strings.Replace(providertest.ServiceAccount(t, f.server.URL+"/token"), `"k1"`, `"`+key+`"`, 1)
}

// toDevices are notifications for devices of a channel, each for another user.
func toDevices(channel, name string, n int) []item {
	items := make([]item, n)
	for i := range items {
		items[i] = item{
			"user_id": fmt.Sprintf("%s-%s-%d", channel, name, i), "channel": channel,
			"to": fmt.Sprintf("%s%d", name, i), "title": "x", channel: item{"android": item{"priority": "high"}},
		}
	}
	return items
}

// Two apps, each with its own project at Google. One has a wrong service account: what is for it waits, and the other
// is unharmed. With the right account in its file, it goes out at once, not only when it would have been tried again,
// which is an hour later.
func TestTwoAppsOfOneKind(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			const n = 40
			shop, news := newFCMFake(t, "right"), newFCMFake(t, "k1")
			d := newDeployment(t, on, unlimited, 0)
			secrets := mount(t, map[string]string{"shop": shop.account(t, "wrong"), "news": news.account(t, "k1")})
			s := d.read(nil, "channels:",
				fmt.Sprintf("  fcm:shop: {credentials: '%s', endpoint: '%s'}", secrets.at("shop"), shop.server.URL),
				fmt.Sprintf("  fcm:news: {credentials: '%s', endpoint: '%s'}", secrets.at("news"), news.server.URL))
			if on == onPostgres {
				s.DatabaseURL, s.Setup = d.databaseURL, d.settings().Setup
			}
			process := d.startWith(s)
			d.bulk(append(toDevices("fcm:shop", "shop", n), toDevices("fcm:news", "news", n)...))
			d.awaitStats("the news are delivered, and the shop waits", func(s stats) bool {
				return s.Totals.Delivered == n && s.Retrying == n && s.Queued+s.Sending == 0
			})
			if got, repeated := news.devices(); got != n || repeated != nil {
				t.Errorf("%d devices got news, %v more than once; want %d and none", got, repeated, n)
			}
			secrets.swap(map[string]string{"shop": shop.account(t, "right")[:300], "news": news.account(t, "k1")})
			d.awaitPage(process, "/metrics", `pacer_secret_refused{secret="fcm:shop"} 1`)
			secrets.swap(map[string]string{"shop": shop.account(t, "right"), "news": news.account(t, "k1")})
			d.awaitStats("the shop is delivered", func(s stats) bool { return s.Totals.Delivered == 2*n })
			if got, repeated := shop.devices(); got != n || repeated != nil {
				t.Errorf("%d devices got something of the shop, %v more than once; want %d and none", got, repeated, n)
			}
			shown := d.logs() + d.opsPage(process, "/metrics") + d.dump()
			if strings.Contains(shown, "BEGIN PRIVATE") || strings.Contains(shown, "canary") {
				t.Error("a credential shows")
			}
		})
	}
}

// A service account is replaced while deliveries run. None fails.
func TestAServiceAccountIsReplacedWhileDeliveriesRun(t *testing.T) {
	t.Parallel()
	const n = 600
	news := newFCMFake(t, "old", "new")
	d := newDeployment(t, onRedis, unlimited, 0)
	secrets := mount(t, map[string]string{"news": news.account(t, "old")})
	d.startWith(d.read(nil, "channels:", fmt.Sprintf("  fcm: {credentials: '%s', endpoint: '%s', limits: 300/1s}",
		secrets.at("news"), news.server.URL)))
	ids := map[string]string{} // by device
	send := func(name string) {
		for i, id := range d.bulk(toDevices("fcm", name, n)) {
			ids[fmt.Sprint(name, i)] = id
		}
	}
	send("a")
	secrets.swap(map[string]string{"news": news.account(t, "new")})
	d.awaitLog("the new value is in force", 1)
	send("b")
	d.awaitStats("what went by the old account is delivered", func(s stats) bool { return s.Totals.Delivered >= n })
	news.accept("new")
	send("c")
	counts := d.awaitStats("all delivered", func(s stats) bool { return s.Totals.Delivered == 3*n })
	got, repeated := news.devices()
	if got != 3*n || repeated != nil || counts.Totals.Failed != 0 {
		t.Errorf("%d devices got something, %v more than once, %d failed; want %d, none and 0", got, repeated,
			counts.Totals.Failed, 3*n)
	}
	for _, device := range repeated {
		var v any
		d.call(http.MethodGet, "/v1/notifications/"+ids[device], nil, nil, &v)
		t.Logf("more than once: %v", v)
	}
}

// mailServer is a mail server that keeps who sent what to whom. It refuses the senders that are not its own.
type mailServer struct {
	own string

	mu   sync.Mutex
	from map[string]string // by recipient
}

// mailSession is one connection to a mail server.
type mailSession struct {
	server   *mailServer
	from, to string
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if s.from = from; from != s.server.own {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "not your address"}
	}
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.from[s.to] = message.Header.Get("From")
	return nil
}

func newMailServer(t *testing.T, own string) (taken *mailServer, address string) {
	t.Helper()
	taken = &mailServer{own: own, from: map[string]string{}}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: taken}, nil
	}))
	server.Domain, server.ErrorLog = "localhost", slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		_ = server.Close()
		served.Wait()
	})
	return taken, listener.Addr().String()
}

// Two senders of e-mails, each with its own server and address. The server of one refuses its address.
func TestTwoSendersOfEmails(t *testing.T) {
	t.Parallel()
	const n = 20
	billing, billingAt := newMailServer(t, "billing@example.com")
	news, newsAt := newMailServer(t, "another@example.com")
	d := newDeployment(t, onRedis, unlimited, 0)
	process := d.startWith(d.read(nil, "channels:",
		fmt.Sprintf("  email:billing: {server: 'smtp+plain://%s', from: 'Billing <billing@example.com>'}", billingAt),
		fmt.Sprintf("  email:news: {server: 'smtp+plain://%s', from: 'News <news@example.com>'}", newsAt)))
	var items []item
	for i := range n {
		for _, channel := range []string{"email:billing", "email:news"} {
			items = append(items, item{
				"user_id": fmt.Sprintf("u%d", i), "channel": channel,
				"to": fmt.Sprintf("u%d@example.org", i), "title": "x",
				"body": strings.Repeat("long ", 2000), channel: item{"subject": "y"},
			})
		}
	}
	d.bulk(items)
	const direct = `{"user_id":"u0","channel":"email:news","to":"u0@example.org","email:news":{"text":"z"}}`
	if code, reply := d.produce(direct); code != http.StatusAccepted {
		t.Errorf("a producer that writes to the queue itself: %d %+v", code, reply)
	}
	d.awaitStats("the bills are delivered, and the news wait", func(s stats) bool {
		return s.Totals.Delivered == n && s.Retrying == n+1 && s.Queued+s.Sending == 0
	})
	billing.mu.Lock()
	defer billing.mu.Unlock()
	news.mu.Lock()
	defer news.mu.Unlock()
	from := billing.from["u7@example.org"]
	if len(billing.from) != n || len(news.from) != 0 || from != `"Billing" <billing@example.com>` {
		t.Errorf("%d bills, %d news; a bill is from %s", len(billing.from), len(news.from), from)
	}
	for page, text := range map[string]string{
		"/metrics": `pacer_deliveries_total{channel="email:billing",outcome="delivered"} 20`, "/channels": `"email:news"`,
	} {
		if shown := d.opsPage(process, page); !strings.Contains(shown, text) {
			t.Errorf("%s does not show %s", page, text)
		}
	}
}

// Whatever goes by a channel's name goes by the whole name: devices, opting out, pausing.
func TestASenderIsAChannelOfItsOwn(t *testing.T) {
	t.Parallel()
	bills, billsAt := newMailServer(t, "billing@example.com")
	_, newsAt := newMailServer(t, "news@example.com")
	d := newDeployment(t, onPostgres, unlimited, 0)
	s := d.read(nil, "channels:",
		fmt.Sprintf("  email:billing: {server: 'smtp+plain://%s', from: 'billing@example.com'}", billsAt),
		fmt.Sprintf("  email:news: {server: 'smtp+plain://%s', from: 'news@example.com'}", newsAt))
	s.DatabaseURL, s.Setup = d.databaseURL, d.settings().Setup
	d.startWith(s)
	put := func(path, body string) {
		t.Helper()
		if code := d.call(http.MethodPut, path, []byte(body), nil, nil); code/100 != 2 {
			t.Errorf("PUT %s %s: %d", path, body, code)
		}
	}
	put("/v1/users/ada/devices/laptop", `{"channel":"email:billing","to":"ada@example.org"}`)
	put("/v1/users/ada/preferences", `{"opt_out":{"channels":["email:news"]}}`)
	ids := d.bulk([]item{
		{"user_id": "ada", "channel": "email:billing", "title": "x", "body": "y"},
		{"user_id": "ada", "channel": "email:news", "to": "ada@example.org", "title": "x", "body": "y"},
	})
	d.awaitStats("one is delivered, the other is not wanted", func(s stats) bool {
		return s.Totals.Delivered == 1 && s.Totals.Delivered+s.Totals.Cancelled+s.Totals.Failed == 2
	})
	if v := d.view(ids[1]); v.Reason != "opted_out" {
		t.Errorf("the news ended as %s, %s", v.Status, v.Reason)
	}
	bills.mu.Lock()
	defer bills.mu.Unlock()
	if len(bills.from) != 1 {
		t.Errorf("%d bills arrived, want 1", len(bills.from))
	}
}
