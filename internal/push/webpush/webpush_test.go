package webpush_test

import (
	"crypto/ecdh"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/push/webpush/webpushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

func message(to string) push.Message {
	return push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: webpush.Name, To: to, Title: "hello", Body: "world",
		Priority: notification.PriorityNormal,
	}}
}

// A request has identity, life, urgency, and the override over the message.
func TestRequestSaysWhatTheNotificationSays(t *testing.T) {
	t.Parallel()
	type request struct {
		header http.Header
		body   []byte
	}
	got := make(chan request, 1)
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, body}
		w.WriteHeader(http.StatusCreated)
	})
	cfg := config(p, server, newKey(t))
	cfg.Subject = "https://example.com/contact"
	sender, b := newSender(t, cfg), webpushtest.New(t)
	m := message(b.Subscription(endpoint(t, server)))
	m.Priority, m.CollapseKey, m.ExpiresAt = notification.PriorityLow, "k", time.Now().Add(time.Hour+time.Second/2)
	m.Override = json.RawMessage(`{"icon":"/i.png","title":"ü 👩‍👩‍👧"}`)
	if err := sender.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := <-got
	id := content.CollapseID(m.Notification)
	for name, want := range map[string]string{
		"Ttl": "3600", "Topic": content.Digest(id), "Urgency": "low", "Content-Encoding": "aes128gcm",
	} {
		if value := r.header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	plain, err := b.Decrypt(r.body)
	want := `{"body":"world","icon":"/i.png","id":"n1","tag":"` + id + `","title":"ü 👩‍👩‍👧"}`
	if err != nil || string(plain) != want {
		t.Errorf("the message is %s (%v), want %s", plain, err, want)
	}
}

// A passive message does not wake a device.
func TestAPassiveMessageIsNotUrgent(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Urgency")
		w.WriteHeader(http.StatusCreated)
	})
	sender, b := newSender(t, config(p, server, newKey(t))), webpushtest.New(t)
	m := message(b.Subscription(endpoint(t, server)))
	m.Passive, m.Priority = true, notification.PriorityHigh
	if err := sender.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if urgency := <-got; urgency != "low" {
		t.Errorf("the urgency is %s", urgency)
	}
}

// The example is from RFC 8291, section 5.
func TestEncryptionIsThatOfTheStandard(t *testing.T) {
	t.Parallel()
	read := func(text string) []byte {
		raw, err := base64url.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	key, err := ecdh.P256().NewPrivateKey(read("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	if err != nil {
		t.Fatal(err)
	}
	checker := webpush.Checker{CheckURL: func(string) error { return nil }}
	got, err := checker.Seal(`{"endpoint":"https://push.example.net/x","keys":{
		"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
		"auth":"BTBZMqHH6r4Tts7J_aSIgg"}}`,
		[]byte("When I grow up, I want to be a watermelon"), key, read("DGv6ra1nlYgDCS1FRnbzlw"))
	if err != nil {
		t.Fatal(err)
	}
	want := "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w" +
		"EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	if text := base64url.EncodeToString(got); text != want {
		t.Errorf("gives %s, want %s", text, want)
	}
}

// A token is used for a push service until it ends or the service refuses it.
func TestTokensAreUsedAgain(t *testing.T) {
	t.Parallel()
	status := http.StatusCreated
	var tokens []string
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		w.WriteHeader(status)
	})
	sender := newSender(t, config(p, server, newKey(t)))
	send := func() { _ = sender.Send(t.Context(), message(webpushtest.New(t).Subscription(endpoint(t, server)))) }
	send()
	send()
	status = http.StatusForbidden
	send()
	send()
	if len(tokens) != 4 || tokens[0] != tokens[1] || tokens[1] != tokens[2] || tokens[2] == tokens[3] {
		t.Errorf("the tokens were %v", tokens)
	}
}

func TestContentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	sender := newSender(t, webpush.Config{PrivateKey: secret.New(newKey(t)), Subject: "mailto:ops@example.com"})
	for name, c := range map[string]struct{ override, want string }{
		"no object": {override: `"x"`, want: "must be a JSON object"},
		"too long":  {override: `{"x":"` + strings.Repeat("x", 3993) + `"}`, want: "Web Push takes at most 3993"},
		"fine":      {override: `{"x":"` + strings.Repeat("x", 3900) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := message("").Notification
			n.Override = json.RawMessage(c.override)
			err := sender.CheckContent(n)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		})
	}
}

func TestCredentialsThatCannotBeRightAreRefused(t *testing.T) {
	t.Parallel()
	const apples = "the subject must be an https URL or a mailto: address of whoever runs this deployment; its host must " +
		"have a name in the public DNS, or Apple refuses it (BadJwtToken)"
	for name, c := range map[string]struct{ key, subject, want string }{
		"no key":    {subject: "mailto:ops@example.com", want: "the private key must be"},
		"no base64": {key: "canary!", subject: "mailto:ops@example.com", want: "the private key must be"},
		"too short": {key: "Y2FuYXJ5", subject: "mailto:ops@example.com", want: "the private key must be"},
		"zero": {
			key: strings.Repeat("A", 43), subject: "mailto:ops@example.com", want: "the private key must be",
		},
		"no subject":   {key: newKey(t), want: "the subject must be"},
		"bare address": {key: newKey(t), subject: "ops@example.com", want: "the subject must be"},
		"http":         {key: newKey(t), subject: "http://example.com", want: "the subject must be"},
		"local":        {key: newKey(t), subject: "mailto:ops@localhost", want: apples},
		"local domain": {key: newKey(t), subject: "mailto:ops@mail.local", want: apples},
		"local URL":    {key: newKey(t), subject: "https://localhost:8080/contact", want: apples},
		"an address":   {key: newKey(t), subject: "https://192.0.2.7/contact", want: apples},
		"one label":    {key: newKey(t), subject: "https://pacer/contact", want: apples},
		"a blank":      {key: newKey(t), subject: "mailto: ops@example.com", want: "the subject must be"},
		"a name":       {key: newKey(t), subject: "mailto:Ops <ops@example.com>", want: "the subject must be"},
		"two mailtos":  {key: newKey(t), subject: "mailto:mailto:ops@example.com", want: "the subject must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := webpush.New(webpush.Config{PrivateKey: secret.New(c.key), Subject: c.subject})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		})
	}
}

// A connection on which nothing arrives any more is noticed, and the next call makes another one.
func TestADeadHTTP2ConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})
	hole := pushtest.NewBlackhole(t, server.Listener.Addr().String())
	cfg := config(p, server, newKey(t))
	cfg.Ping = 2 * time.Second  // a living connection answers within that
	sender := newSender(t, cfg) // whose calls may take an hour
	_, port, _ := net.SplitHostPort(hole.Address())
	to := webpushtest.New(t).Subscription("https://example.com:" + port + "/push/" + endpointSecret)
	if err := sender.Send(t.Context(), message(to)); err != nil {
		t.Fatal(err)
	}
	hole.Swallow()
	if failure := push.Classify(sender.Send(t.Context(), message(to))); failure == nil ||
		failure.Class != push.Ambiguous {
		t.Errorf("on the dead connection: %v, want ambiguous", failure)
	}
	if err := sender.Send(t.Context(), message(to)); err != nil {
		t.Errorf("on the next connection: %v", err)
	}
}
