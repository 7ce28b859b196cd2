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

// Programs that write JSON escape more than they must, each something else; and what is shown has become one line,
// while an escaped line end in it is still none.
func TestReplyShowsNoContentHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	const spaces = "Dear Ann,  your order\n\nis on\u00a0its way: code 1234"
	const signs = `Ann's code is "1234", + 5 = <that> & more`
	const family = "Hello 👩\u200d👧 Ann, your code is 1234"
	for name, c := range map[string]struct{ body, text string }{
		"spaces as they are":      {spaces, spaces},
		"spaces in JSON":          {spaces, `Dear Ann,  your order\n\nis on` + "\u00a0" + `its way: code 1234`},
		"spaces in ASCII":         {spaces, `Dear Ann,  your order\n\nis on\u00a0its way: code 1234`},
		"spaces in capitals":      {spaces, `Dear Ann,\u0020\u0020your order\u000A\u000Ais on\u00A0its way: code 1234`},
		"spaces of Windows":       {spaces, `Dear Ann,  your order\r\n\r\nis on\u00a0its\tway: code 1234`},
		"spaces in a form":        {spaces, `Dear+Ann%2C++your+order%0A%0Ais+on%C2%A0its+way%3A+code+1234`},
		"spaces in a path":        {spaces, `Dear%20Ann,%20%20your%20order%0a%0ais%20on%c2%a0its%20way:%20code%201234`},
		"an unseen joiner":        {family, family},
		"an unseen joiner, ASCII": {family, `Hello \ud83d\udc69\u200d\ud83d\udc67 Ann, your code is 1234`},
		"an unseen joiner, mixed": {family, `Hello 👩\u200D👧 Ann, your code is 1234`},
		"an unseen character":     {family, `Hello 👩\u200d👧 Ann,\u200b your\ufeff code is 1234`},
		"signs in JSON":           {signs, `Ann's code is \"1234\", + 5 = <that> & more`},
		"signs of .NET": {
			signs, `Ann\u0027s code is \u00221234\u0022, \u002B 5 = \u003Cthat\u003E \u0026 more`,
		},
		"signs of Gson": {
			signs, `Ann\u0027s code is \"1234\", + 5 \u003d \u003cthat\u003e \u0026 more`,
		},
		"signs of JavaScript": {signs, `Ann\'s code is \"1234\", + 5 = <that> & more`},
		"signs in a URL":      {signs, `Ann's%20code%20is%20%221234%22%2C%20%2B%205%20%3D%20%3Cthat%3E%20%26%20more`},
		"all in JSON":         {"Anna 1234", `\u0041\u006e\u006E\u0061\u0020\u0031\u0032\u0033\u0034`},
		"JSON in JSON":        {signs, `Ann\\u0027s code is \\\"1234\\\", + 5 = <that> \\u0026 more`},
		"a path of Windows":   {`see C:\new\unit\u0041`, `see C:\new\unit\u0041`},
		"the same in JSON":    {`see C:\new\unit\u0041`, `see C:\\new\\unit\\u0041`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := push.Reply([]byte(`bad: {"body":"`+c.text+`","x":1}`), &notification.Notification{Body: c.body})
			if want := `bad: {"body":"***","x":1}`; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// Only as much is masked as the reply repeats, whole characters of how it writes them.
func TestReplyShowsWhatFollowsAText(t *testing.T) {
	t.Parallel()
	n := &notification.Notification{Body: "your code for the garden is 1234, Jürgen 🔑 and a long rest"}
	for text, want := range map[string]string{
		`no: "your code for the garden is...", \u0027x\u0027`:                  `no: "***...", \u0027x\u0027`,
		`no: "your code for the garden is 1234, J\u00fcrg" \n and`:             `no: "***" \n and`,
		`no: "your code for the garden is 1234, J\u00e4rg"`:                    `no: "***rg"`,
		`no: "your code for the garden is 1234, J\u00fcrgen \ud83d\ude00 and"`: `no: "*** and"`,
		`no: "your code for the garden is 1234, J\u00fcrgen \ud83d..."`:        `no: "***..."`,
		`no: "\u0027 your garden \u"`:                                          `no: "\u0027 your garden \u"`,
		`100%, 7%2, \`:                                                         `100%, 7%2, \`,
	} {
		if got := push.Reply([]byte(text), n); got != want {
			t.Errorf("%q shows %q, want %q", text, got, want)
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
