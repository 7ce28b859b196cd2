package ntfy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/ntfy"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

func message(to string) push.Message {
	return push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: ntfy.Name, To: to, Title: "hello", Body: "world",
		Priority: notification.PriorityNormal,
	}}
}

// What quiet hours let pass makes no sound, whatever the producer wrote.
func TestAPassiveMessageHasALowPriority(t *testing.T) {
	t.Parallel()
	m := message(topicName)
	m.Passive, m.Override = true, json.RawMessage(`{"priority":5}`)
	if got, _ := published(t, m); got["priority"] != 2.0 {
		t.Errorf("the priority is %v", got["priority"])
	}
}

// published is what a server gets of one notification, its headers apart.
func published(t *testing.T, m push.Message) (map[string]any, http.Header) {
	t.Helper()
	var body map[string]any
	var header http.Header
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &body); err != nil || r.Method != http.MethodPost || r.URL.Path != "/" {
			t.Errorf("%s %s with %q: %v", r.Method, r.URL.Path, text, err)
		}
	})
	if err := newSender(t, config(p, server)).Send(t.Context(), m); err != nil {
		t.Fatalf("send: %v", err)
	}
	return body, header
}

func TestPublishesWhatTheNotificationSays(t *testing.T) {
	t.Parallel()
	sequence := content.Digest("n1")
	full := func(priority float64) map[string]any {
		return map[string]any{
			"topic": topicName, "title": "hello", "message": "world", "priority": priority, "sequence_id": sequence,
		}
	}
	for _, c := range []struct {
		name string
		set  func(*notification.Notification)
		want map[string]any
	}{
		{
			name: "title and body", set: func(*notification.Notification) {},
			want: full(3),
		},
		{
			name: "critical", set: func(n *notification.Notification) { n.Priority = notification.PriorityCritical },
			want: full(5),
		},
		{
			name: "high", set: func(n *notification.Notification) { n.Priority = notification.PriorityHigh },
			want: full(4),
		},
		{
			name: "low", set: func(n *notification.Notification) { n.Priority = notification.PriorityLow },
			want: full(2),
		},
		{
			name: "a title alone", set: func(n *notification.Notification) { n.Body = "" },
			want: map[string]any{"topic": topicName, "message": "hello", "priority": 3.0, "sequence_id": sequence},
		},
		{
			name: "an override", set: func(n *notification.Notification) {
				n.Override = json.RawMessage(`{"tags":["warning"],"click":"https://example.com","priority":1}`)
			},
			want: map[string]any{
				"topic": topicName, "title": "hello", "message": "world", "priority": 1.0, "sequence_id": sequence,
				"tags": []any{"warning"}, "click": "https://example.com",
			},
		},
		{
			name: "a collapse key", set: func(n *notification.Notification) { n.CollapseKey = "order" },
			want: map[string]any{
				"topic": topicName, "title": "hello", "message": "world", "priority": 3.0,
				"sequence_id": content.Digest(content.Digest("chat\x00order")),
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := message(topicName)
			c.set(m.Notification)
			got, header := published(t, m)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("published (-want +got):\n%s", diff)
			}
			if header.Get("Authorization") != "Bearer "+token {
				t.Errorf("Authorization is %q", header.Get("Authorization"))
			}
		})
	}
}

// The token belongs to the configured server. Another server, which a target names, must not learn it.
func TestTheTokenGoesToItsServerAlone(t *testing.T) {
	t.Parallel()
	var header http.Header
	p := &pushtest.Provider{}
	status := http.StatusOK
	server := pushtest.StartServer(t, p, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		w.WriteHeader(status)
	})
	cfg := config(p, server)
	cfg.Server = "https://ntfy.example.com"
	send := func() error { return newSender(t, cfg).Send(t.Context(), message(base(server)+"/"+topicName)) }
	if err := send(); err != nil {
		t.Fatalf("send: %v", err)
	}
	if got := header.Get("Authorization"); got != "" {
		t.Errorf("another server got the Authorization %q", got)
	}
	// If that server wants a token, the target is wrong, not the settings.
	status = http.StatusUnauthorized
	want := &push.Error{Class: push.Permanent, Code: "401", Concerns: push.ConcernsTarget}
	if err := send(); !cmp.Equal(push.Classify(err), want) {
		t.Errorf("another server's 401 means %v, want %v", err, want)
	}
}

func TestContentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, override, want string }{
		{name: "another topic", override: `{"topic":"other"}`, want: "topic: is set from the target"},
		{
			name: "another time", override: `{"delay":"1h"}`,
			want: "delay: would deliver it at a time that the limits do not allow; set send_at instead",
		},
		{
			name: "an e-mail besides", override: `{"email":"eve@example.com"}`,
			want: "email: would reach somebody in a way that no limit counts",
		},
		{
			name: "a phone call besides", override: `{"call":"yes"}`,
			want: "call: would reach somebody in a way that no limit counts",
		},
		{
			name: "another time, in capitals", override: `{"Delay":"3h"}`,
			want: `"Delay" must be written delay: servers may take one for the other`,
		},
		{name: "a phone call, in capitals", override: `{"CALL":"yes"}`, want: `"CALL" must be written call`},
		{name: "another topic, in capitals", override: `{"tOPIC":"x"}`, want: `"tOPIC" must be written topic`},
		{name: "a text, in capitals", override: `{"Message":7}`, want: `"Message" must be written message`},
		{name: "a text, with a long s", override: `{"meſſage":7}`, want: `"meſſage" must be written message`},
		{name: "what pacer sets itself", override: `{"Priority":5}`, want: `"Priority" must be written priority`},
		{name: "what it does not know", override: `{"Markdown":true}`, want: `"Markdown" must be written markdown`},
		{name: "no text", override: `{"message":7}`, want: "message: must be a text"},
		{
			name: "a text too long", override: `{"message":"` + strings.Repeat("x", 4097) + `"}`,
			want: "is a message of 4097 bytes, and ntfy takes at most 4096",
		},
		{
			name: "tags without end", override: `{"tags":["` + strings.Repeat("x", 40_000) + `"]}`,
			want: "and ntfy takes at most 32768",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := message(topicName)
			m.Override = json.RawMessage(c.override)
			err := ntfy.Checker{}.CheckContent(m.Notification)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestServersThatAreNotABaseURLAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, server string }{
		{name: "no URL", server: "ntfy.sh"},
		{name: "another scheme", server: "ftp://ntfy.sh"},
		{name: "a topic's URL", server: "https://ntfy.sh/alerts"},
		{name: "a password", server: "https://ada:pw@ntfy.sh"},
		{name: "a query", server: "https://ntfy.sh?auth=x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := (ntfy.Settings{Server: c.server}).Check(); err == nil {
				t.Errorf("%q is taken", c.server)
			}
			if _, err := ntfy.New(ntfy.Config{Server: c.server}); err == nil {
				t.Errorf("New takes %q", c.server)
			}
		})
	}
}
