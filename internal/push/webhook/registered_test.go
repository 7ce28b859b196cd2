package webhook_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/peertest"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
)

// registered is what is registered for one URL.
func registered(t *testing.T, url string, header http.Header, keys ...secret.Secret) func(string) (
	signing.Keys, http.Header, bool,
) {
	t.Helper()
	all, err := signing.ParseAll(keys)
	if err != nil {
		t.Fatal(err)
	}
	return func(to string) (signing.Keys, http.Header, bool) { return all, header, to == url }
}

// A registered URL is signed for with its own keys and with no other, one signature for each while one replaces
// another. Others verify them: a shared secret by the JavaScript library of Standard Webhooks, a public key by OpenSSL.
func TestRegisteredURLsHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	peer := peertest.Start(t)
	shared, private := signing.Generate(signing.HMAC), signing.Generate(signing.Ed25519)
	public := func(text secret.Secret) string {
		key, err := signing.Parse(text.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		return key.Public()
	}
	foreign := public(signing.Generate(signing.Ed25519))
	responses, signatures := map[string]peertest.Response{}, ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		headers := map[string]string{}
		for name := range r.Header {
			headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		signatures = r.Header.Get("Webhook-Signature")
		for _, key := range []string{shared.Reveal(), public(private), signingSecret, foreign} {
			responses[key] = peer.Ask(t, peertest.Request{Kind: "webhook", Body: body, Secret: key, Headers: headers})
		}
	}))
	t.Cleanup(server.Close)
	url := server.URL + "/hook"
	sender := newSender(t, webhook.Config{
		Secrets: secrets(signingSecret), Registered: registered(t, url, nil, private, shared),
	})
	if err := sender.Send(t.Context(), message(url)); err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(signatures); len(fields) != 2 || !strings.HasPrefix(fields[0], "v1a,") ||
		!strings.HasPrefix(fields[1], "v1,") {
		t.Errorf("the signatures are %q", signatures)
	}
	for _, key := range []string{shared.Reveal(), public(private)} {
		if responses[key].Error != "" || responses[key].Plain == "" {
			t.Errorf("a receiver with %.8s… says %+v", key, responses[key])
		}
	}
	for _, key := range []string{signingSecret, foreign} {
		if responses[key].Error == "" {
			t.Errorf("a receiver with %.8s… believes it", key)
		}
	}
}

// Headers of an endpoint are sent; none replaces one of pacer's. A receiver that repeats one does not show it to
// others.
func TestRegisteredURLsHaveHeadersOfTheirOwn(t *testing.T) {
	t.Parallel()
	const token = "Bearer canaryheader41c9"
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "who is "+r.Header.Get("Authorization")+"?")
	}))
	t.Cleanup(server.Close)
	header := http.Header{
		"Authorization": {token}, "X-Tenant": {"7"}, "Webhook-Id": {"forged"}, "Content-Type": {"text/plain"},
		"Pacer-Attempt": {"99"}, "User-Agent": {"acme"},
	}
	sender := newSender(t, webhook.Config{Registered: registered(t, server.URL, header)})
	failure := push.Classify(sender.Send(t.Context(), message(server.URL)))
	if failure == nil || strings.Contains(failure.Reply, "canary") || !strings.Contains(failure.Reply, "who is") {
		t.Errorf("the failure is %+v", failure)
	}
	for name, want := range map[string]string{
		"Authorization": token, "X-Tenant": "7", "Webhook-Id": "n1", "Content-Type": "application/json",
		"Pacer-Attempt": "2", "User-Agent": "acme", "Webhook-Signature": "",
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
	if header.Get("Webhook-Id") != "forged" {
		t.Error("the directory's own header is changed")
	}
}
