package teams_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/teams"
)

func message(to string) push.Message {
	return push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: teams.Name, To: to, Title: "hello", Body: "world",
		Priority: notification.PriorityNormal,
	}}
}

// send sends to a webhook that the handler serves.
func send(t *testing.T, m push.Message, handler http.HandlerFunc) error {
	t.Helper()
	p := &pushtest.Provider{}
	server := pushtest.StartServer(t, p, handler)
	m.To = base(server) + path
	return newSender(t, config(p, server)).Send(t.Context(), m)
}

func TestPostsACard(t *testing.T) {
	t.Parallel()
	const envelope = `{"attachments":[{"content":{%},"contentType":"application/vnd.microsoft.card.adaptive",` +
		`"contentUrl":null}],"type":"message"}`
	const schema = `"$schema":"http://adaptivecards.io/schemas/adaptive-card.json",`
	const title = `{"inlines":[{"size":"Medium","text":"hello","type":"TextRun","weight":"Bolder"}],` +
		`"spacing":"Default","type":"RichTextBlock"}`
	line := func(text, spacing string) string {
		return `{"inlines":[{"text":"` + text + `","type":"TextRun"}],` +
			`"spacing":"` + spacing + `","type":"RichTextBlock"}`
	}
	for _, c := range []struct {
		name string
		set  func(*notification.Notification)
		want string // of the card
	}{
		{
			name: "title and body", set: func(*notification.Notification) {},
			want: schema + `"body":[` + title + `,` + line("world", "Default") + `],` +
				`"type":"AdaptiveCard","version":"1.2"`,
		},
		{
			name: "a title alone", set: func(n *notification.Notification) { n.Body = "" },
			want: schema + `"body":[` + title + `],"type":"AdaptiveCard","version":"1.2"`,
		},
		{
			name: "lines, and what Markdown would read", set: func(n *notification.Notification) {
				n.Title, n.Body = "", "[a](https://evil.example)\r\n\n**b**"
			},
			want: schema + `"body":[` + line("[a](https://evil.example)", "Default") + `,` + line("\u00a0", "None") +
				`,` + line("**b**", "None") + `],"type":"AdaptiveCard","version":"1.2"`,
		},
		{
			name: "an override", set: func(n *notification.Notification) {
				n.Override = json.RawMessage(`{"msteams":{"width":"Full"},"version":"1.5","body":[{"type":"Image"}]}`)
			},
			want: schema + `"body":[{"type":"Image"}],"msteams":{"width":"Full"},"type":"AdaptiveCard","version":"1.5"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := message("")
			c.set(m.Notification)
			var got string
			err := send(t, m, func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				got = string(text)
				if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
					r.Header.Get("Idempotency-Key") != "n1" {
					t.Errorf("%s with %v", r.Method, r.Header)
				}
				w.WriteHeader(http.StatusAccepted)
			})
			if want := strings.Replace(envelope, "%", c.want, 1); err != nil || got != want {
				t.Errorf("%v, posted\n%s, want\n%s", err, got, want)
			}
		})
	}
}

func TestContentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, override, want string }{
		{name: "another type", override: `{"type":"MessageCard"}`, want: "type: must be AdaptiveCard"},
		{name: "another type besides", override: `{"Type":"MessageCard"}`, want: `"Type" must be written type`},
		{name: "nothing to show", override: `{"body":[]}`, want: "shows nothing"},
		{name: "a body that is none", override: `{"body":"x"}`, want: "body: must be a list of objects"},
		{
			name: "too long", override: `{"speak":"` + strings.Repeat("x", 28<<10) + `"}`,
			want: "and Teams takes at most 28672",
		},
		{name: "long", override: `{"speak":"` + strings.Repeat("x", 27<<10) + `"}`},
		{name: "no object", override: `[]`, want: "must be a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := message("")
			m.Override = json.RawMessage(c.override)
			err := teams.Checker{}.CheckContent(m.Notification)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestHostsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"https://x.logic.azure.com", "x.logic.azure.com:443", "", "*.com"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			if err := (teams.Settings{Hosts: []string{host}}).Check(); err == nil {
				t.Errorf("%q is taken", host)
			}
			if _, err := teams.New(httpsend.HookConfig{Hosts: httpsend.Hosts{host}}); err == nil {
				t.Errorf("New takes %q", host)
			}
		})
	}
}

// A producer that writes to the queue itself knows the hosts from what a dispatcher published.
func TestTheCheckerKnowsTheHosts(t *testing.T) {
	t.Parallel()
	descriptor := teams.Settings{Hosts: []string{"*.logic.azure.com", "*.powerplatform.com"}}.Channel()
	checker := descriptor.NewChecker(channel.Surroundings{
		Public: descriptor.Public, CheckURL: func(string) error { return nil },
	})
	if err := checker.CheckTarget("https://x.api.powerplatform.com/x?sig=y"); err != nil {
		t.Error(err)
	}
	err := checker.CheckTarget("https://contoso.webhook.office.com/webhookb2/x")
	const want = "must be at a host that --teams-hosts (PACER_TEAMS_HOSTS) names: *.logic.azure.com, *.powerplatform.com"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
