package webhook_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/test/providertest"
)

const signingSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSender(tb testing.TB, cfg webhook.Config) *webhook.Sender {
	tb.Helper()
	cfg.Allow = append(cfg.Allow, netip.MustParsePrefix("127.0.0.0/8"))
	sender, err := webhook.New(cfg)
	if err != nil {
		tb.Fatalf("new sender: %v", err)
	}
	tb.Cleanup(func() { _ = sender.Close() })
	return sender
}

func secrets(texts ...string) (all []secret.Secret) {
	for _, text := range texts {
		all = append(all, secret.New(text))
	}
	return all
}

func message(to string) push.Message {
	return push.Message{
		Notification: &notification.Notification{
			ID: "n1", UserID: "ada", Category: "chat", To: to, Title: "hello", Body: "world",
			Data: json.RawMessage(`{"a":1}`), CreatedAt: time.Unix(1_800_000_000, 0),
		},
		Attempt: 2, AdmittedAt: time.UnixMicro(1_800_000_001_234_567),
	}
}

// A webhook tells whoever receives it that quiet hours let it pass passively.
func TestAPassiveRequestSaysSo(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Pacer-Quiet-Hours")
	}))
	t.Cleanup(server.Close)
	sender := newSender(t, webhook.Config{})
	m := message(server.URL)
	for _, want := range []string{"", "passive"} {
		m.Passive = want != ""
		if err := sender.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if header := <-got; header != want {
			t.Errorf("the header is %q, want %q", header, want)
		}
	}
}

func TestRequestHasThePromisedForm(t *testing.T) {
	t.Parallel()
	type request struct {
		header http.Header
		body   []byte
	}
	got := make(chan request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, body}
	}))
	t.Cleanup(server.Close)
	sender := newSender(t, webhook.Config{Secrets: secrets(signingSecret)})
	if err := sender.Send(t.Context(), message(server.URL+"/x?y=z")); err != nil {
		t.Fatalf("send: %v", err)
	}
	r := <-got
	for name, want := range map[string]string{
		"Webhook-Id": "n1", "Pacer-Attempt": "2", "Pacer-Admitted-At": "1800000001234567",
		"Content-Type": "application/json",
	} {
		if value := r.header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	verifier, err := standardwebhooks.NewWebhook(signingSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(r.body, r.header); err != nil {
		t.Errorf("the signature does not verify: %v", err)
	}
	var body, want map[string]any
	if err := json.Unmarshal(r.body, &body); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{"id":"n1","user_id":"ada","category":"chat","title":"hello","body":"world",
		"data":{"a":1},"created_at":"2027-01-15T08:00:00Z"}`), &want)
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestResponsesAreClassified(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status     int
		retryAfter string
		class      push.Class
		wait       time.Duration
	}{
		{status: 200},
		{status: 204},
		{status: 299},
		{status: 404, class: push.Transient},
		{status: 410, class: push.TargetGone},
		{status: 429, retryAfter: "17", class: push.Throttled, wait: 17 * time.Second},
		{status: 429, class: push.Throttled},
		{status: 429, retryAfter: "99999999999999999999", class: push.Throttled, wait: time.Hour},
		{status: 429, retryAfter: "-5", class: push.Throttled},
		{status: 429, retryAfter: "soon", class: push.Throttled},
		{status: 429, retryAfter: "Mon, 02 Jan 2006 15:04:05 GMT", class: push.Throttled},
		{status: 408, class: push.Ambiguous},
		{status: 425, class: push.Transient},
		{status: 500, class: push.Transient},
		{status: 503, retryAfter: "120", class: push.Transient, wait: 2 * time.Minute},
		{status: 503, retryAfter: "7200", class: push.Transient, wait: time.Hour},
		{status: 599, class: push.Ambiguous},
		{status: 301, class: push.Transient},
		{status: 307, class: push.Transient},
		{status: 400, class: push.Transient},
		{status: 401, class: push.Transient},
		{status: 403, class: push.Transient},
		{status: 422, class: push.Transient},
	} {
		t.Run(http.StatusText(c.status)+" "+c.retryAfter, func(t *testing.T) {
			t.Parallel()
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				w.Header().Set("Retry-After", c.retryAfter)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, "because of "+r.URL.String())
			}))
			t.Cleanup(server.Close)
			target := server.URL + "/hooks/T0123456789"
			failure := push.Classify(newSender(t, webhook.Config{}).Send(t.Context(), message(target)))
			if calls != 1 {
				t.Errorf("%d calls, want 1", calls)
			}
			if c.class == 0 {
				if failure != nil {
					t.Fatalf("got %v, want delivered", failure)
				}
				return
			}
			if failure == nil || failure.Class != c.class || failure.RetryAfter != c.wait || failure.Unsent {
				t.Errorf("got %+v, want %s after %s", failure, c.class, c.wait)
			}
			if failure != nil && failure.Reply != "because of /***" {
				t.Errorf("the reply is %q", failure.Reply)
			}
		})
	}
}

func TestCallsWithoutAResponseAreClassified(t *testing.T) {
	t.Parallel()
	ends := func(end providertest.End) string {
		return providertest.StartHTTP(t, providertest.HTTPConfig{Plain: true},
			providertest.Rule{Reply: providertest.Reply{End: end}}).URL
	}
	closed := providertest.StartHTTP(t, providertest.HTTPConfig{Plain: true})
	closed.Unplug()
	for name, c := range map[string]struct {
		to     string
		class  push.Class
		code   string
		unsent bool
	}{
		"Refused": {
			to: closed.URL + "/?token=canary", class: push.Transient, code: "connection_refused", unsent: true,
		},
		"Hangs": {to: ends(providertest.Hangs) + "/?token=canary", class: push.Ambiguous, code: "timeout"},
		"Drops": {to: ends(providertest.HangsUp) + "/?token=canary", class: push.Ambiguous, code: "connection"},
		"Forbidden": {
			to: "http://10.1.2.3/?token=canary", class: push.Permanent, code: "forbidden_address", unsent: true,
		},
		"NoURL": {to: "http://\x7f/?token=canary", class: push.Permanent, code: "bad_request", unsent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := time.Hour
			if c.code == "timeout" {
				patience = 5 * time.Second
			}
			cfg := webhook.Config{GuardedConfig: httpsend.GuardedConfig{Timeout: patience}}
			failure := push.Classify(newSender(t, cfg).Send(t.Context(), message(c.to)))
			if failure == nil || failure.Class != c.class || failure.Code != c.code || failure.Unsent != c.unsent {
				t.Fatalf("got %+v, want %s (%s), unsent %t", failure, c.class, c.code, c.unsent)
			}
			if strings.Contains(failure.Error(), "canary") {
				t.Errorf("the error tells the target's secret: %v", failure)
			}
		})
	}
}

func TestCancelledContextEndsTheCall(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only after that the server notices that the connection ends
		close(entered)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	failure := push.Classify(newSender(t, webhook.Config{}).Send(ctx, message(server.URL)))
	if failure == nil || failure.Code != "cancelled" {
		t.Errorf("got %v, want cancelled", failure)
	}
}

func TestLittleOfTheReplyIsRead(t *testing.T) {
	t.Parallel()
	written := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		total := 0
		chunk := make([]byte, 32<<10)
		for {
			n, err := w.Write(chunk)
			total += n
			if err != nil || total > 256<<20 {
				written <- total
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	if err := newSender(t, webhook.Config{}).Send(t.Context(), message(server.URL)); err != nil {
		t.Fatalf("send: %v", err)
	}
	if total := <-written; total > 64<<20 {
		t.Errorf("the server could write %d bytes", total)
	}
}

func TestBadSecretIsRefused(t *testing.T) {
	t.Parallel()
	_, err := webhook.New(webhook.Config{Secrets: secrets("whsec_!!!canary")})
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want a refusal without the secret", err)
	}
}

// While one secret replaces another, both sign. For a target with secrets of its own, only those sign.
//
//nolint:paralleltest,tparallel // One server gets one request after another.
func TestSecretsRotateAndBelongToTargets(t *testing.T) {
	t.Parallel()
	const old, other = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk", "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcg=="
	type signed struct {
		header http.Header
		body   []byte
	}
	got := make(chan signed, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- signed{r.Header, body}
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	for name, c := range map[string]struct {
		targets map[string][]secret.Secret
		verify  map[string]bool
	}{
		"rotating": {verify: map[string]bool{signingSecret: true, old: true, other: false}},
		"another target's": {
			targets: map[string][]secret.Secret{"example.com": secrets(other)},
			verify:  map[string]bool{signingSecret: true, old: true, other: false},
		},
		"this target's": {
			targets: map[string][]secret.Secret{host: secrets(other)},
			verify:  map[string]bool{signingSecret: false, old: false, other: true},
		},
		"this target's none": {
			targets: map[string][]secret.Secret{host: nil},
			verify:  map[string]bool{signingSecret: false, old: false, other: false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sender := newSender(t, webhook.Config{Secrets: secrets(signingSecret, old), Targets: c.targets})
			if err := sender.Send(t.Context(), message(server.URL)); err != nil {
				t.Fatal(err)
			}
			r := <-got
			for key, want := range c.verify {
				verifier, err := standardwebhooks.NewWebhook(key)
				if err != nil {
					t.Fatal(err)
				}
				if err := verifier.Verify(r.body, r.header); (err == nil) != want {
					t.Errorf("verified with %.12s…: %v, want %t", key, err, want)
				}
			}
		})
	}
}

// A connection on which nothing arrives any more is noticed long before the time-out of a call, and the next call makes
// another one.
func TestADeadHTTP2ConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("called by %s, want HTTP/2", r.Proto)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	hole := pushtest.NewBlackhole(t, server.Listener.Addr().String())
	cfg := config(p)
	cfg.Roots, cfg.Ping = server.Roots(), 2*time.Second
	sender := newSender(t, cfg) // whose calls may take an hour
	_, port, _ := net.SplitHostPort(hole.Address())
	target := "https://example.com:" + port + "/"
	if err := sender.Send(t.Context(), message(target)); err != nil {
		t.Fatal(err)
	}
	hole.Swallow()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if failure := push.Classify(sender.Send(t.Context(), message(target))); failure == nil ||
				failure.Class != push.Ambiguous {
				t.Errorf("on the dead connection: %v, want ambiguous", failure)
			}
		})
	}
	all.Wait()
	if err := sender.Send(t.Context(), message(target)); err != nil {
		t.Errorf("on the next connection: %v", err)
	}
	if n := hole.Accepted(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}
