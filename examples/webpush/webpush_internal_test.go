package main

import (
	"context"
	"encoding/json"
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
	tab.await(`document.querySelector("#status").textContent === "Subscribed."`)
	if key := tab.text(`window.subscribedWith.applicationServerKey`); key != keys.Public {
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
	tab.await(`document.querySelector("#received").textContent.includes("Your order is on its way")`)
	shown := tab.text(`navigator.serviceWorker.ready.then(w => w.getNotifications())
		.then(all => all.map(n => n.title + ": " + n.body).join("; "))`)
	if want := "Your order is on its way: It arrives tomorrow before noon."; shown != want {
		t.Errorf("the browser shows %q, want %q", shown, want)
	}
	tab.screenshot("webpush")
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
		response, err := http.Get("http://" + ops + "/readyz") //nolint:noctx // it is there or not
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
	*testing.T
	ctx          context.Context
	registration chan string // of the service worker
}

// vendorless has the browser subscribe with the test's push service instead of its vendor's, which it can't be told.
const vendorless = `PushManager.prototype.subscribe = async function (options) {
	window.subscribedWith = options;
	return { toJSON: () => (%s) };
};`

func openTab(t *testing.T, url, subscription string) *tab {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{chromedp.Flag("disable-dev-shm-usage", true)}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root has none of
	}
	ctx, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(options...),
		chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it ends with the test in any case
		cancel()
	})
	b := &tab{T: t, ctx: ctx, registration: make(chan string, 10)}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(800, 600)); err != nil {
		t.Fatalf("open Chromium: %v; make install-servers installs it", err)
	}
	b.listen()
	b.call("prepare the browser", func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, serviceworker.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(vendorless, subscription)})
		return err
	})
	if _, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: browser.PermissionSettingGranted,
		Origin: url,
	}); err != nil {
		t.Fatalf("allow notifications: %v", err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatalf("open the page: %v", err)
	}
	return b
}

// listen waits for the service worker's registration.
func (b *tab) listen() {
	if err := chromedp.Listen(b.ctx, func(event any) {
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
	if err := chromedp.Do(b.ctx, chromedp.Func(f)); err != nil {
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
	if err := chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		b.Fatalf("click %s: %v", selector, err)
	}
}

// text evaluates an expression.
func (b *tab) text(expression string) string {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("evaluate %s: %v", expression, err)
	}
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// await waits until an expression is true.
func (b *tab) await(expression string) {
	b.Helper()
	for deadline := time.Now().Add(patience); b.text(expression) != "true"; <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("never true: %s; the page says %s", expression, b.text("document.body.innerText"))
		}
	}
}

// screenshot keeps a picture for people, with -artifacts.
func (b *tab) screenshot(name string) {
	b.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), picture, 0o600)
	}
	if err != nil {
		b.Errorf("screenshot %s: %v", name, err)
	}
}
