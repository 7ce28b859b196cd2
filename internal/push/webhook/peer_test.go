package webhook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/peertest"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

// The JavaScript library of Standard Webhooks accepts what is sent: with either secret while one replaces the other,
// and with no third one.
func TestOthersVerifyTheSignatures(t *testing.T) {
	t.Parallel()
	peer := peertest.Start(t)
	const next, other = "whsec_bmV4dCBzZWNyZXQgb2YgdGhlIHJlY2VpdmVy", "whsec_b3RoZXIgc2VjcmV0IG9mIG5vYm9keSBoZXJl"
	const text = "ü 👩‍👩‍👧 \u2028 </script>"
	responses := map[string]peertest.Response{}
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		headers := map[string]string{}
		for name := range r.Header {
			headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		for _, secret := range []string{signingSecret, next, other} {
			request := peertest.Request{Kind: "webhook", Body: body, Secret: secret, Headers: headers}
			responses[secret] = peer.Ask(t, request)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	cfg := config(p)
	cfg.Secrets, cfg.Roots = secrets(signingSecret, next), server.Roots()
	m := message(strings.Replace(server.URL, "127.0.0.1", "example.com", 1))
	m.Notification.Body = text
	if err := newSender(t, cfg).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{signingSecret, next} {
		var got struct{ Body string }
		if err := json.Unmarshal([]byte(responses[secret].Plain), &got); err != nil || got.Body != text {
			t.Errorf("with %s the peer says %+v", secret, responses[secret])
		}
	}
	if responses[other].Error == "" {
		t.Errorf("the peer accepts a secret that was not used: %+v", responses[other])
	}
}
