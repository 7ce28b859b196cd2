package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/push/webpush/webpushtest"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/browsertest"
	"github.com/pacer-notify/pacer/test/processtest"
)

// patience is how long a test waits for what should come at once.
const patience = time.Minute

var dispatcherPath string

func TestMain(m *testing.M) {
	programs := processtest.Build(m, "dispatcher")
	dispatcherPath = programs.Path("dispatcher")
	os.Exit(programs.Run())
}

// A browser subscribes on the page, and its service worker shows what somebody sends. Only the push service is the
// test's: it checks what a real one checks, and passes on to the browser what a real one would.
func TestABrowserSubscribesAndReceives(t *testing.T) {
	t.Parallel()
	keys, err := webpush.GenerateKeys()
	if err != nil {
		t.Fatal(err)
	}
	service := startPushService(t, keys.Public)
	api := startDispatcher(t, keys.Private, service.certificate)
	handler, err := newSite(api, "", "ada", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	shop := httptest.NewServer(handler)
	t.Cleanup(shop.Close)

	tab := openTab(t, shop.URL, service.subscriber.Subscription(service.url+"/push/1"))
	tab.click("#subscribe")
	tab.Await(`document.querySelector("#status").textContent === "Subscribed."`)
	if key := browsertest.Eval[string](tab.Tab, `window.subscribedWith.applicationServerKey`); key != keys.Public {
		t.Errorf("the page subscribed with %s, want %s", key, keys.Public)
	}
	tab.click("#order")
	var message string
	select {
	case message = <-service.messages:
	case <-time.After(patience):
		t.Fatal("no message got to the push service")
	}
	tab.deliver(shop.URL, message)
	tab.Await(`document.querySelector("#received").textContent.includes("Your order is on its way")`)
	shown := browsertest.Eval[string](tab.Tab, `navigator.serviceWorker.ready.then(w => w.getNotifications())
		.then(all => all.map(n => n.title + ": " + n.body).join("; "))`)
	if want := "Your order is on its way: It arrives tomorrow before noon."; shown != want {
		t.Errorf("the browser shows %q, want %q", shown, want)
	}
	tab.Screenshot("webpush")
}

// pushService is what a browser's vendor runs.
type pushService struct {
	url, certificate string
	subscriber       webpushtest.Browser
	messages         chan string // decrypted
}

func startPushService(t *testing.T, public string) *pushService {
	t.Helper()
	s := &pushService{subscriber: webpushtest.New(t), messages: make(chan string, 10)}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = webpushtest.Verify(r, public, "mailto:ops@example.com")
		}
		var message []byte
		if err == nil {
			message, err = s.subscriber.Decrypt(body)
		}
		if err != nil {
			t.Errorf("the push service refuses the call: %v", err)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusCreated)
		s.messages <- string(message)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	s.certificate = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(s.certificate, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// startDispatcher runs pacer with its defaults and a key, and gives the address of its API.
func startDispatcher(t *testing.T, private, certificate string) string {
	t.Helper()
	api, ops := freeAddress(t), freeAddress(t)
	process := exec.CommandContext(t.Context(), dispatcherPath, "serve", "--listen", api, "--ops-listen", ops)
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
	process.WaitDelay = patience
	process.Env = append(os.Environ(), "PACER_WEBPUSH_KEY="+private, "PACER_WEBPUSH_SUBJECT=mailto:ops@example.com",
		"PACER_WEBHOOK_ALLOW=127.0.0.0/8", "SSL_CERT_FILE="+certificate)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Wait() // the test's end ended it
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the dispatcher:\n%s", text)
		}
		_ = log.Close()
	})
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		response, err := apitest.Once.Get("http://" + ops + "/readyz") //nolint:noctx // it is there or not
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return "http://" + api
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the dispatcher is not ready: %v", err)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// tab is the page in a real browser.
type tab struct {
	*browsertest.Tab
	registration chan string // of the service worker
}

// vendorless has the browser subscribe with the test's push service instead of its vendor's, which it can't be told.
const vendorless = `PushManager.prototype.subscribe = async function (options) {
	window.subscribedWith = options;
	return { toJSON: () => (%s) };
};`

func openTab(t *testing.T, url, subscription string) *tab {
	t.Helper()
	b := &tab{Tab: browsertest.Open(t, 800, 600), registration: make(chan string, 10)}
	b.listen()
	b.call("prepare the browser", func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, serviceworker.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(vendorless, subscription)})
		return err
	})
	if _, err := chromedp.CallBrowser(b.Page, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: browser.PermissionSettingGranted,
		Origin: url,
	}); err != nil {
		t.Fatalf("allow notifications: %v", err)
	}
	b.Navigate(url)
	return b
}

// listen waits for the service worker's registration.
func (b *tab) listen() {
	if err := chromedp.Listen(b.Page, func(event any) {
		updated, ok := event.(*serviceworker.EventWorkerRegistrationUpdated)
		if !ok {
			return
		}
		for _, r := range updated.Registrations {
			select {
			case b.registration <- r.RegistrationID.String():
			default: // it is known
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) call(what string, f func(context.Context, *chromedp.Target) error) {
	b.Helper()
	if err := chromedp.Do(b.Page, chromedp.Func(f)); err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// deliver hands a message to the service worker, as the browser does with one that its push service sent.
func (b *tab) deliver(origin, message string) {
	b.Helper()
	id := <-b.registration
	b.call("deliver the message", func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{
			Origin: origin, RegistrationID: serviceworker.RegistrationID(id), Data: message,
		})
		return err
	})
}

func (b *tab) click(selector string) {
	b.Helper()
	if err := chromedp.Do(b.Page, chromedp.Click(chromedp.CSS(selector))); err != nil {
		b.Fatalf("click %s: %v", selector, err)
	}
}
