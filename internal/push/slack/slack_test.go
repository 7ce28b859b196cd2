package slack_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/slack"
)

func message(to string) push.Message {
	return push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: slack.Name, To: to, Title: "hello", Body: "world",
		Priority: notification.PriorityNormal,
	}}
}

// posted is what a webhook gets of one notification.
func posted(t *testing.T, set func(*notification.Notification)) map[string]any {
	t.Helper()
	var body map[string]any
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &body); err != nil || r.Method != http.MethodPost ||
			r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Key") != "n1" {
			t.Errorf("%s %v with %q: %v", r.Method, r.Header, text, err)
		}
	})
	m := message(base(server) + path)
	set(m.Notification)
	if err := newSender(t, config(p, server)).Send(t.Context(), m); err != nil {
		t.Fatalf("send: %v", err)
	}
	return body
}

func TestPostsWhatTheNotificationSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(*notification.Notification)
		want map[string]any
	}{
		{
			name: "title and body", set: func(*notification.Notification) {},
			want: map[string]any{"text": "*hello*\nworld"},
		},
		{
			name: "a title alone", set: func(n *notification.Notification) { n.Body = "" },
			want: map[string]any{"text": "*hello*"},
		},
		{
			name: "a body alone", set: func(n *notification.Notification) { n.Title = "" },
			want: map[string]any{"text": "world"},
		},
		{
			name: "a title of two lines", set: func(n *notification.Notification) { n.Title = "a\r\nb" },
			want: map[string]any{"text": "*a b*\nworld"},
		},
		{
			name: "stars in the title", set: func(n *notification.Notification) { n.Title = "5 * 5" },
			want: map[string]any{"text": "5 * 5\nworld"},
		},
		{
			name: "mentions and links", set: func(n *notification.Notification) {
				n.Title, n.Body = "<!channel>", "<https://evil.example|R&D> &lt;"
			},
			want: map[string]any{
				"text": "*&lt;!channel&gt;*\n&lt;https://evil.example|R&amp;D&gt; &amp;lt;",
			},
		},
		{
			name: "blocks", set: func(n *notification.Notification) {
				n.Override = json.RawMessage(`{"blocks":[{"type":"divider"}],"unfurl_links":false}`)
			},
			want: map[string]any{
				"text": "*hello*\nworld", "blocks": []any{map[string]any{"type": "divider"}}, "unfurl_links": false,
			},
		},
		{
			name: "attachments alone", set: func(n *notification.Notification) {
				n.Title, n.Body, n.Override = "", "", json.RawMessage(`{"attachments":[{"text":"x <@U1>"}]}`)
			},
			want: map[string]any{"attachments": []any{map[string]any{"text": "x <@U1>"}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, posted(t, c.set)); diff != "" {
				t.Errorf("posted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, override, want string }{
		{name: "another channel", override: `{"channel":"#other"}`, want: "channel: is set from the target"},
		{
			name: "another channel, in capitals", override: `{"Channel":"other"}`,
			want: `"Channel" must be written channel: servers may take one for the other`,
		},
		{name: "a text, in capitals", override: `{"TEXT":7}`, want: `"TEXT" must be written text`},
		{name: "no text", override: `{"text":7}`, want: "text: must be a text"},
		{
			name: "a text too long", override: `{"text":"` + strings.Repeat("ü", 40_001) + `"}`,
			want: "text: must be a text of at most 40000 characters",
		},
		{name: "the longest text", override: `{"text":"` + strings.Repeat("ü", 40_000) + `"}`},
		{
			name: "too many blocks", override: `{"blocks":[` + strings.Repeat(`{},`, 50) + `{}]}`,
			want: "blocks: must be a list of at most 50 objects",
		},
		{
			name: "too many attachments", override: `{"attachments":[` + strings.Repeat(`{},`, 100) + `{}]}`,
			want: "attachments: must be a list of at most 100 objects",
		},
		{name: "blocks that are none", override: `{"blocks":"x"}`, want: "blocks: must be a list"},
		{name: "nothing to show", override: `{"text":null}`, want: "shows nothing"},
		{name: "no object", override: `[]`, want: "must be a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := message("")
			m.Override = json.RawMessage(c.override)
			err := slack.Checker{}.CheckContent(m.Notification)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestHostsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"https://hooks.slack.com", "hooks.slack.com/services", "hooks.slack.com:443", "", "*.com", "*",
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			if err := (slack.Settings{Hosts: []string{host}}).Check(); err == nil {
				t.Errorf("%q is taken", host)
			}
			if _, err := slack.New(httpsend.HookConfig{Hosts: httpsend.Hosts{host}}); err == nil {
				t.Errorf("New takes %q", host)
			}
		})
	}
	if _, err := slack.New(httpsend.HookConfig{}); err == nil {
		t.Error("New takes no host")
	}
}

// A producer that writes to the queue itself knows the hosts from what a dispatcher published.
func TestTheCheckerKnowsTheHosts(t *testing.T) {
	t.Parallel()
	descriptor := slack.Settings{Hosts: []string{"hooks.slack.com", "chat.example.com"}}.Channel()
	checker := descriptor.NewChecker(channel.Surroundings{
		Public: descriptor.Public, CheckURL: func(string) error { return nil },
	})
	if err := checker.CheckTarget("https://chat.example.com/hooks/x"); err != nil {
		t.Error(err)
	}
	err := checker.CheckTarget("https://hooks.slack-gov.com" + path)
	const want = "must be at a host that --slack-hosts (PACER_SLACK_HOSTS) names: hooks.slack.com, chat.example.com"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
