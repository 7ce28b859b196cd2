package apns_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

// bench makes a sender whose calls the handler serves.
func bench(t *testing.T, handler http.HandlerFunc) (*apns.Sender, key) {
	t.Helper()
	k := newKey(t)
	sender, err := apns.New(k.config(pushtest.StartServer(t, &pushtest.Provider{}, handler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender, k
}

func message() push.Message {
	return push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: apns.Name, To: deviceToken, Title: "hello", Body: "world",
		Priority: notification.PriorityNormal,
	}}
}

// A connection may end within the body that has the reason. Then the status decides, where no reason says otherwise.
func TestABodyMayBeCut(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]push.Class{
		400: push.Transient, 403: push.CredentialsRefused, 404: push.Permanent, 410: push.TargetGone,
		413: push.Permanent, 429: push.Throttled, 500: push.Transient,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			sender, _ := bench(t, pushtest.Cut(status, `{"reason":"Bad`))
			failure := push.Classify(sender.Send(t.Context(), message()))
			if failure == nil || failure.Class != want || failure.Code != fmt.Sprint(status) {
				t.Errorf("the outcome is %v, want %v", failure, want)
			}
		})
	}
}

// When the service says that the token has expired, it is replaced once and the call is made again with the new one.
func TestExpiredTokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var first atomic.Value
	sender, k := bench(t, nil)
	_ = sender
	server := pushtest.StartServer(t, &pushtest.Provider{}, func(w http.ResponseWriter, r *http.Request) {
		if err := k.verify(r); err != nil {
			t.Errorf("credential: %v", err)
		}
		bearer := r.Header.Get("Authorization")
		if calls.Add(1) == 1 {
			first.Store(bearer)
		}
		if bearer == first.Load() {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"reason":"ExpiredProviderToken"}`)
		}
	})
	sender, err := apns.New(k.config(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	for range 3 {
		if err := sender.Send(t.Context(), message()); err != nil {
			t.Errorf("send: %v", err)
		}
	}
	if calls.Load() != 4 {
		t.Errorf("%d calls for 3 deliveries and one expired token, want 4", calls.Load())
	}
}

// A request has identity, life, priority, and the override over the payload.
func TestRequestSaysWhatTheNotificationSays(t *testing.T) {
	t.Parallel()
	type request struct {
		header  http.Header
		payload string
	}
	got := make(chan request, 1)
	sender, _ := bench(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, string(body)}
	})
	m := message()
	m.ID = "0197a9b2-7c1e-7000-8000-0123456789AB"
	m.Priority = notification.PriorityLow
	m.ExpiresAt = time.Unix(1_800_000_000, 0)
	m.CollapseKey = "Ünïcode"
	m.Data = json.RawMessage(`{"n": 12345678901234567890}`)
	m.Override = json.RawMessage(`{"aps":{"badge":3,"alert":{"title":"override"}},"x":"<&>",
		"headers":{"apns-push-type":"complication","apns-topic":"com.example.other"}}`)
	if err := sender.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := <-got
	for name, want := range map[string]string{
		"Apns-Id": "0197a9b2-7c1e-7000-8000-0123456789ab", "Apns-Priority": "5", "Apns-Expiration": "1800000000",
		"Apns-Collapse-Id": content.CollapseID(m.Notification), "Apns-Push-Type": "complication",
		"Apns-Topic": "com.example.other",
	} {
		if value := r.header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	const want = `{"aps":{"alert":{"body":"world","title":"override"},"badge":3},` +
		`"data":{"n":12345678901234567890},"x":"<&>"}`
	if r.payload != want {
		t.Errorf("payload\n%s, want\n%s", r.payload, want)
	}
}

// Apple refuses a background notification of another priority, and drops one with an alert.
func TestBackgroundObeysApplesRule(t *testing.T) {
	t.Parallel()
	type request struct {
		header http.Header
		body   []byte
	}
	got := make(chan request, 1)
	sender, _ := bench(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, body}
	})
	m := message()
	m.Priority, m.Data = notification.PriorityCritical, json.RawMessage(`{"sync":"inbox"}`)
	m.Override = json.RawMessage(`{"headers":{"apns-push-type":"background"}}`)
	if err := sender.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if priority := r.header.Get("Apns-Priority"); priority != "5" || r.header.Get("Apns-Push-Type") != "background" {
		t.Errorf("sent with %v", r.header)
	}
	if want := `{"aps":{"content-available":1},"data":{"sync":"inbox"}}`; string(r.body) != want {
		t.Errorf("sent %s, want %s", r.body, want)
	}
}

func TestContentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	sender, _ := bench(t, nil)
	for name, c := range map[string]struct {
		override string
		body     int
		want     string
	}{
		"no object": {override: `[]`, want: "must be a JSON object"},
		"headers":   {override: `{"headers":1}`, want: "headers: must be a JSON object"},
		"smuggled": {
			override: `{"headers":{"apns-topic":"a\r\nb: c"}}`, want: "headers: must hold texts of printable ASCII",
		},
		"unknown header": {
			override: `{"headers":{"authorization":"x"}}`,
			want:     "headers: may hold apns-push-type, apns-priority and apns-topic",
		},
		"priority": {
			override: `{"headers":{"apns-priority":"7"}}`, want: "headers: apns-priority must be 1, 5 or 10",
		},
		"background and urgent": {
			override: `{"headers":{"apns-push-type":"background","apns-priority":"10"}}`,
			want:     "headers: apns-priority must be 5 where apns-push-type is background",
		},
		"background and visible": {
			override: `{"aps":{"badge":3},"headers":{"apns-push-type":"background"}}`,
			want:     "aps: a background notification has no alert, badge or sound",
		},
		"too long":        {override: `{"x":"` + strings.Repeat("x", 4096) + `"}`, want: "APNs takes at most 4096"},
		"longest of VoIP": {override: `{"headers":{"apns-push-type":"voip"},"x":"` + strings.Repeat("x", 5000) + `"}`},
		"too long VoIP": {
			override: `{"headers":{"apns-push-type":"voip"},"x":"` + strings.Repeat("x", 5120) + `"}`,
			want:     "APNs takes at most 5120",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := message().Notification
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
	good := apns.Config{Key: secret.New(newKey(t).text), KeyID: keyID, TeamID: teamID, Topic: topic}
	for want, change := range map[string]func(*apns.Config){
		"the key must be the text of a .p8 file": func(c *apns.Config) { c.Key = secret.New("canarykey") },
		"the key id must be ten":                 func(c *apns.Config) { c.KeyID = "canarykey" },
		"the team id must be ten":                func(c *apns.Config) { c.TeamID = "" },
		"the topic":                              func(c *apns.Config) { c.Topic = "" },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			cfg := good
			change(&cfg)
			_, err := apns.New(cfg)
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("gives %v, want %q", err, want)
			}
		})
	}
}

// A payload is sent as it is written: signs that HTML gives a meaning take one byte each, so that all fits that may.
func TestNoSignTakesMoreThanItsBytes(t *testing.T) {
	t.Parallel()
	const signs = "<&>"
	for name, override := range map[string]string{"plain": "", "with an override": `{"aps":{"badge":1}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			sender, _ := bench(t, func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- string(body)
			})
			m := message()
			m.Body, m.Override = strings.Repeat(signs, 1300), json.RawMessage(override)
			m.Data = json.RawMessage(`{"url":"https://example.com/?a=1&b=2"}`)
			if err := errors.Join(sender.CheckContent(m.Notification), sender.Send(t.Context(), m)); err != nil {
				t.Fatal(err)
			}
			if payload := <-got; !strings.Contains(payload, m.Body) || !strings.Contains(payload, string(m.Data)) {
				t.Errorf("the payload is %.200s…", payload)
			}
		})
	}
}

// A passive alert makes no sound and lights no screen, whatever the producer wrote. Where the words for that would be
// too long, it goes as it is.
func TestAPassiveAlertDoesNotDisturb(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		override, body, want string
	}{
		"alert": {
			body: "world", override: `{"aps":{"sound":"default","interruption-level":"time-sensitive"}}`,
			want: `{"aps":{"alert":{"body":"world","title":"hello"},"interruption-level":"passive"}}`,
		},
		"background": {
			body: "", override: `{"aps":{"alert":null,"content-available":1},"headers":{"apns-push-type":"background"}}`,
			want: `{"aps":{"content-available":1}}`,
		},
		"as long as may be": {
			body: strings.Repeat("a", 4096-len(`{"aps":{"alert":{"body":"","title":"hello"}}}`)),
			want: `{"aps":{"alert":{"body":"` + strings.Repeat("a", 4096-len(`{"aps":{"alert":{"body":"","title":"hello"}}}`)) +
				`","title":"hello"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			sender, _ := bench(t, func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- string(body)
			})
			m := message()
			m.Passive, m.Body, m.Override, m.Data = true, c.body, json.RawMessage(c.override), nil
			if err := sender.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if payload := <-got; payload != c.want {
				t.Errorf("payload\n%s, want\n%s", payload, c.want)
			}
		})
	}
}
