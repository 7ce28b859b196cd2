package push_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// What a provider says is kept, and no secret of it.
func TestReply(t *testing.T) {
	t.Parallel()
	const hook = "https://ada:s3cr3t@hooks.example.com/services/T0000AAAA/XyZ123456789?sig=abcdef"
	for _, c := range []struct {
		name, text, target string
		secrets            []string
		want               string
	}{
		{name: "nothing"},
		{name: "plain", text: "  no such\r\n\tuser ", want: "no such user"},
		{name: "json", text: "{\n  \"error\": \"BadDeviceToken\"\n}", want: `{ "error": "BadDeviceToken" }`},
		{name: "steers a terminal", text: "a\x1b[31mb\x00c\u202ed\u0085e\u200bf", want: "a[31mbcd ef"},
		{name: "not UTF-8", text: "a\xffb", want: "ab"},
		{name: "the target", text: "cannot POST " + hook, target: hook, want: "cannot POST ***"},
		{
			name: "its parts", text: "cannot POST /services/T0000AAAA/XyZ123456789 by ada:s3cr3t, sig abcdef",
			target: hook, want: "cannot POST /*** by ada:***, sig ***",
		},
		{
			name: "a device token", text: "token fcm:device.1 is unknown", target: "fcm:device.1",
			want: "token *** is unknown",
		},
		{name: "as JSON writes it", text: `{"to":"a\/b\/c d"}`, target: "a/b/c d", want: `{"to":"***"}`},
		{name: "a secret", text: "key swordfish refused", secrets: []string{"swordfish"}, want: "key *** refused"},
		{name: "webhook secret", text: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw!", want: "***!"},
		{name: "bearer", text: "Authorization: Bearer abc.def-1, go", want: "Authorization: ***, go"},
		{name: "bearer alone", text: "got Bearer abc123", want: "got ***"},
		{name: "bearer is missing", text: "Bearer token is missing", want: "Bearer token is missing"},
		{name: "JSON password", text: `{"password":"hunter\"2","user":"ada"}`, want: `{"password":***,"user":"ada"}`},
		{name: "JSON in JSON", text: `{"e":"{\"api_key\":\"k1\",\"x\":1}"}`, want: `{"e":"{\"api_key\":\***}`},
		{name: "form", text: "access_token=abc&x=1", want: "access_token=***&x=1"},
		{name: "cookie", text: "Set-Cookie: sid=1; Path=/", want: "Set-Cookie: ***; Path=/"},
		{
			name: "what is wrong with it", text: "token: expired; signature: invalid",
			want: "token: expired; signature: invalid",
		},
		{
			name: "credentials in a URL", text: "proxy http://u:p@10.0.0.1:3128 refused",
			want: "proxy http://***@10.0.0.1:3128 refused",
		},
		{name: "a query", text: "see https://a.example/x?id=1&k=v.", want: "see https://a.example/x?***"},
		{name: "JSON web token", text: "jwt eyJhbGciOi.eyJzdWIi.c2ln bad", want: "jwt *** bad"},
		{name: "hexadecimal", text: "dev " + strings.Repeat("0aF1", 16), want: "dev ***"},
		{name: "long and random", text: "reg " + strings.Repeat("Ab-_9", 10), want: "reg ***"},
		{
			name: "an id", text: "id 123e4567-e89b-12d3-a456-426614174000",
			want: "id 123e4567-e89b-12d3-a456-426614174000",
		},
		{
			name: "Google's type", text: `{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError"}`,
			want: `{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := &notification.Notification{To: c.target}
			if got := push.Reply([]byte(c.text), n, c.secrets...); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// A provider may repeat what was sent, or the beginning of it.
func TestReplyShowsNoContent(t *testing.T) {
	t.Parallel()
	n := &notification.Notification{
		Title: "Your <code>", Body: strings.Repeat("private words, ", 2000),
		Data: json.RawMessage(`{"account":"AT61 1904 3002","n":1}`),
	}
	sent, err := json.Marshal(map[string]any{"title": n.Title, "body": n.Body})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"bad: " + string(sent), "bad: AT61 1904 3002 and Your <code>", "bad: " + n.Body[:100] + "...",
	} {
		got := push.Reply([]byte(text), n)
		for _, private := range []string{"code", "private", "AT61"} {
			if strings.Contains(got, private) || !strings.HasPrefix(got, "bad: ") {
				t.Errorf("%q shows %q", got, private)
			}
		}
	}
}

// A text is masked whole whichever of its forms the reply has: they may differ only after a while.
func TestReplyShowsNoContentAfterASlash(t *testing.T) {
	t.Parallel()
	n := &notification.Notification{Body: "Please open your account/login with the code 1234"}
	for _, text := range []string{"bad: " + n.Body, "bad: " + strings.ReplaceAll(n.Body, "/", `\/`)} {
		if got := push.Reply([]byte(text), n); got != "bad: ***" {
			t.Errorf("%q shows %q", text, got)
		}
	}
}

// Many providers write JSON in ASCII.
func TestReplyShowsNoContentInASCII(t *testing.T) {
	t.Parallel()
	n := &notification.Notification{Body: "Grüße 🔑 von A/B, Ihr Code ist 1234"}
	for _, text := range []string{
		`bad: {"body":"Gr\u00fc\u00dfe \ud83d\udd11 von A/B, Ihr Code ist 1234"}`,
		`bad: {"body":"Gr\u00FC\u00DFe \uD83D\uDD11 von A/B, Ihr Code ist 1234"}`,
		`bad: {"body":"Gr\u00fc\u00dfe \ud83d\udd11 von A\/B, Ihr Code ist 1234"}`,
	} {
		if got := push.Reply([]byte(text), n); got != `bad: {"body":"***"}` {
			t.Errorf("%q shows %q", text, got)
		}
	}
}

// A reply is cut between two characters, and a secret that stands where it is cut is masked whole.
func TestReplyIsCut(t *testing.T) {
	t.Parallel()
	long := push.Reply([]byte(strings.Repeat("é ", 400)), nil)
	if len(long) > push.MaxReply || !utf8.ValidString(long) || !strings.HasSuffix(long, "…") {
		t.Errorf("%d bytes: %q", len(long), long)
	}
	n := &notification.Notification{To: "my.target.is.a.secret"}
	for before := 480; before <= 500; before++ {
		padding := strings.Repeat("x ", before)[:before]
		for _, secret := range []string{"my.target.is.a.secret", "Bearer abc.def.ghi.jkl.1"} {
			if got := push.Reply([]byte(padding+" "+secret), n); strings.Contains(got, "my.") ||
				strings.Contains(got, "abc") {
				t.Errorf("after %d bytes: %q", before, got[470:])
			}
		}
	}
}

// A reply that repeats a text, and goes on with another letter whose first byte is the same, stays one that stores
// take.
func TestAMaskTearsNoLetterApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ known, reply, want string }{
		{"Привет, как дела, Аня", "refused: Привет, как дела, Юля", "refused: ***ля"},
		{"your table is booked, René", "no: your table is booked, Renè", "no: ***"},
		{"your table is booked, Ren…", "no: your table is booked, Ren“!", "no: ***!"},
	} {
		n := &notification.Notification{To: "https://example.com/", Title: c.known}
		if got := push.Reply([]byte(c.reply), n); !utf8.ValidString(got) || got != c.want {
			t.Errorf("%q gives %q, want %q", c.reply, got, c.want)
		}
	}
}

// Whatever a provider sends, the reply is short, printable and without the target.
func FuzzReply(f *testing.F) {
	f.Add([]byte("cannot POST /hook/0123456789"), "https://example.com/hook/0123456789")
	f.Add([]byte("\xff\x00Authorization: Basic YTpi"), "YTpi")
	f.Add([]byte("Привет, как дела, Юля"), "Привет, как дела, Аня")
	f.Fuzz(func(t *testing.T, text []byte, target string) {
		got := push.Reply(text, &notification.Notification{To: target, Title: target})
		if len(got) > push.MaxReply || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00\x1b") {
			t.Errorf("%q", got)
		}
		if again := push.Reply([]byte(got), nil); len(again) > push.MaxReply {
			t.Errorf("again %q", again)
		}
	})
}
