package webpush_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/peertest"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webpush/webpushtest"
)

// Libraries of other authors understand what is sent: http_ece decrypts the message, jose verifies the credential.
func TestOthersUnderstandTheMessages(t *testing.T) {
	t.Parallel()
	peer := peertest.Start(t)
	b := webpushtest.New(t)
	browser := peertest.Request{
		Kind:       "webpush",
		PrivateKey: base64url.EncodeToString(b.Private.Bytes()), AuthSecret: base64url.EncodeToString(b.Auth),
	}
	var response peertest.Response
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(w http.ResponseWriter, r *http.Request) {
		q := browser
		q.Body, _ = io.ReadAll(r.Body)
		q.Authorization, q.Audience = r.Header.Get("Authorization"), "https://"+r.Host
		response = peer.Ask(t, q)
		q.Body[len(q.Body)-1]++
		if changed := peer.Ask(t, q); changed.Error == "" {
			t.Error("the peer accepts a message that was changed on its way")
		}
		w.WriteHeader(http.StatusCreated)
	})
	sender := newSender(t, config(p, server, newKey(t)))
	for _, text := range []string{"x", "ü 👩‍👩‍👧 \u2028", strings.Repeat("long ", 740)} {
		m := message(b.Subscription(endpoint(t, server)))
		m.Notification.Body = text
		if err := sender.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		var got delivered
		if err := json.Unmarshal([]byte(response.Plain), &got); err != nil || response.Error != "" {
			t.Fatalf("the peer says %+v (%v)", response, err)
		}
		if got.Body != text || got.ID != "n1" || response.Subject != "mailto:ops@example.com" {
			t.Errorf("the peer reads %+v", response)
		}
	}
}
