package sms_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/push/sms"
	"github.com/pacer-notify/pacer/internal/secret"
)

func message() push.Message {
	return push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: sms.Name, To: to, Title: "hello", Body: "world",
		Priority: notification.PriorityNormal,
	}}
}

// sent is what Twilio gets, and from whom.
func sent(t *testing.T, m push.Message, set func(*sms.Config)) (values url.Values, user, password string) {
	t.Helper()
	server := pushtest.StartServer(t, &pushtest.Provider{}, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		values = r.PostForm
		user, password, _ = r.BasicAuth()
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"status":"accepted","error_code":null}`)
	})
	cfg := config(server)
	set(&cfg)
	if err := newSender(t, cfg).Send(t.Context(), m); err != nil {
		t.Fatalf("send: %v", err)
	}
	return values, user, password
}

func TestSendsWhatTheNotificationSays(t *testing.T) {
	t.Parallel()
	const service = "MG0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name string
		set  func(*notification.Notification, *sms.Config)
		want url.Values
	}{
		{
			name: "title and body", set: func(*notification.Notification, *sms.Config) {},
			want: url.Values{"To": {to}, "From": {from}, "Body": {"hello\nworld"}},
		},
		{
			name: "a title alone", set: func(n *notification.Notification, _ *sms.Config) { n.Body = "" },
			want: url.Values{"To": {to}, "From": {from}, "Body": {"hello"}},
		},
		{
			name: "a messaging service", set: func(_ *notification.Notification, c *sms.Config) { c.From = service },
			want: url.Values{"To": {to}, "MessagingServiceSid": {service}, "Body": {"hello\nworld"}},
		},
		{
			name: "more parameters", set: func(n *notification.Notification, _ *sms.Config) {
				n.Override = json.RawMessage(`{"Body":"x","MediaUrl":["https://a.example/1","https://a.example/2"],
					"SmartEncoded":true,"MaxPrice":0.05}`)
			},
			want: url.Values{
				"To": {to}, "From": {from}, "Body": {"x"}, "MediaUrl": {"https://a.example/1", "https://a.example/2"},
				"SmartEncoded": {"true"}, "MaxPrice": {"0.05"},
			},
		},
		{
			name: "long before its end", set: func(n *notification.Notification, _ *sms.Config) {
				n.ExpiresAt = time.Now().Add(48 * time.Hour)
			},
			want: url.Values{"To": {to}, "From": {from}, "Body": {"hello\nworld"}, "ValidityPeriod": {"36000"}},
		},
		{
			name: "at its end", set: func(n *notification.Notification, _ *sms.Config) { n.ExpiresAt = time.Now() },
			want: url.Values{"To": {to}, "From": {from}, "Body": {"hello\nworld"}, "ValidityPeriod": {"1"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := message()
			got, user, password := sent(t, m, func(cfg *sms.Config) { c.set(m.Notification, cfg) })
			if diff := cmp.Diff(c.want, got); diff != "" || user != account || password != token {
				t.Errorf("sent by %s:%s (-want +got):\n%s", user, password, diff)
			}
		})
	}
}

// An API key has a SID and a secret of its own; the account stays in the URL.
func TestAnAPIKeyLogsIn(t *testing.T) {
	t.Parallel()
	_, user, password := sent(t, message(), func(c *sms.Config) { c.Token = secret.New("SK1:canarysecret") })
	if user != "SK1" || password != "canarysecret" {
		t.Errorf("logged in as %s with %s", user, password)
	}
}

func TestSegments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{name: "none", want: 1},
		{name: "one of GSM-7", text: strings.Repeat("ü", 160), want: 1},
		{name: "two of GSM-7", text: strings.Repeat("x", 161), want: 2},
		{name: "two full ones", text: strings.Repeat("x", 306), want: 2},
		{name: "three of GSM-7", text: strings.Repeat("x", 307), want: 3},
		{name: "the extension takes two places", text: strings.Repeat("€", 80), want: 1},
		{name: "eighty-one of them", text: strings.Repeat("€", 81), want: 2},
		{name: "a pair is not torn apart", text: strings.Repeat("x", 152) + "€" + strings.Repeat("x", 152), want: 3},
		{name: "one of UCS-2", text: strings.Repeat("漢", 70), want: 1},
		{name: "two of UCS-2", text: strings.Repeat("x", 70) + "ç", want: 2},
		{name: "emoji take two", text: strings.Repeat("👋", 35), want: 1},
		{name: "thirty-six emoji", text: strings.Repeat("👋", 36), want: 2},
		{name: "the longest in GSM-7", text: strings.Repeat("x", 1600), want: 11},
		{name: "the longest in UCS-2", text: strings.Repeat("漢", 1600), want: 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := sms.Segments(c.text); got != c.want {
				t.Errorf("%d segments, want %d", got, c.want)
			}
		})
	}
}

func TestContentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, override string
		segments       int
		want           string
	}{
		{name: "another number", override: `{"To":"+1"}`, want: "the parameter To is set from the target"},
		{name: "another sender", override: `{"From":"+1"}`, want: "the parameter From is set from --sms-from (PACER_SMS_FROM)"},
		{name: "another time", override: `{"SendAt":"2026-01-01T00:00:00Z"}`, want: "set send_at instead"},
		{name: "another time, in capitals", override: `{"SENDAT":"2026"}`, want: `"SENDAT" must be written SendAt`},
		{name: "another number, in small letters", override: `{"to":"+1"}`, want: `"to" must be written To`},
		{name: "a text, in small letters", override: `{"body":"x"}`, want: `"body" must be written Body`},
		{name: "no parameter", override: `{"a&b":"c"}`, want: "whose names have only letters"},
		{name: "no text", override: `{"Body":7}`, want: "the parameter Body must be a text"},
		{name: "nothing", override: `{"Body":null}`, want: "sends nothing"},
		{name: "an empty text", override: `{"Body":""}`, want: "sends nothing"},
		{name: "media alone", override: `{"Body":null,"MediaUrl":"https://a.example/1"}`},
		{name: "an object", override: `{"MediaUrl":[{"x":1}]}`, want: "the parameter MediaUrl must be a text, a number"},
		{name: "the longest", override: `{"Body":"` + strings.Repeat("x", 1600) + `"}`},
		{
			name: "too long", override: `{"Body":"` + strings.Repeat("x", 1601) + `"}`,
			want: "is a text of 1601 characters in 11 segments, and Twilio takes at most 1600 characters",
		},
		{
			name: "too many segments", override: `{"Body":"` + strings.Repeat("漢", 71) + `"}`, segments: 1,
			want: "is a text of 71 characters in 2 segments, and --sms-segments (PACER_SMS_SEGMENTS) allows 1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := message().Notification
			n.Override = json.RawMessage(c.override)
			err := sms.Checker{Segments: c.segments}.CheckContent(n)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSettingsThatCannotBeRightAreRefused(t *testing.T) {
	t.Parallel()
	good := sms.Settings{Account: account, Token: token, From: from}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name string
		set  func(*sms.Settings)
		want string
	}{
		{name: "a path as the account", set: func(s *sms.Settings) { s.Account = "AC/../x" }, want: "account: must be"},
		{name: "a number without +", set: func(s *sms.Settings) { s.From = "15005550006" }, want: "from: must be"},
		{name: "a long name", set: func(s *sms.Settings) { s.From = "Pacer and others" }, want: "from: must be"},
		{name: "half a service", set: func(s *sms.Settings) { s.From = "MG0123456789" }, want: "from: must be"},
		{name: "no number", set: func(s *sms.Settings) { s.Segments = "some" }, want: "segments: must be a number"},
		{name: "no segment", set: func(s *sms.Settings) { s.Segments = "0" }, want: "segments: must be a number"},
		{name: "no URL", set: func(s *sms.Settings) { s.Endpoint = "api.example.com" }, want: "endpoint: must be"},
		{
			name: "a password", set: func(s *sms.Settings) { s.Endpoint = "https://a:canary@example.com" },
			want: "endpoint: must be",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := good
			c.set(&s)
			err := s.Check()
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for _, from := range []string{"+15005550006", "12345", "Pacer", "MG" + strings.Repeat("0a", 16)} {
		if err := (sms.Settings{From: from}).Check(); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
	if _, err := sms.New(sms.Config{Account: account, From: from}); err == nil {
		t.Error("New takes no token")
	}
}

// A producer that writes to the queue itself knows the bound from what a dispatcher published.
func TestTheCheckerKnowsTheBound(t *testing.T) {
	t.Parallel()
	descriptor := sms.Settings{Account: account, Segments: strconv.Itoa(2)}.Channel()
	checker := descriptor.NewChecker(channel.Surroundings{Public: descriptor.Public})
	n := message().Notification
	for length, want := range map[int]bool{306: true, 307: false} {
		n.Title, n.Body = "", strings.Repeat("x", length)
		if err := checker.CheckContent(n); (err == nil) != want {
			t.Errorf("%d characters: %v", length, err)
		}
	}
}

// One character beyond GSM-7 more than doubles the segments of a long text, and with them its price.
func ExampleSegments() {
	text := strings.Repeat("Your order is on its way. ", 6)
	fmt.Println(len(text), sms.Segments(text), sms.Segments(text+"😀"))
	// Output: 156 1 3
}
