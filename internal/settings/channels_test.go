package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/settings"
)

// everyChannelSetting gives every setting of every channel its example. It also returns the examples by the names of the
// flags, and those that must never show.
func everyChannelSetting(t *testing.T) (channels settings.Channels, examples map[string]string, hidden []string) {
	t.Helper()
	examples = map[string]string{}
	for kind, channel := range reflect.ValueOf(&channels).Elem().Fields() {
		prefix := kind.Tag.Get("prefix")
		if prefix == "" {
			continue
		}
		for field, setting := range channel.Fields() {
			name, example := prefix+field.Tag.Get("name"), field.Tag.Get("example")
			if example == "" {
				t.Errorf("--%s has no example", name)
			}
			if setting.Kind() == reflect.String {
				setting.SetString(example)
			} else {
				setting.Set(reflect.ValueOf([]string{example}))
			}
			if examples[name] = example; field.Tag.Get("json") == "-" {
				hidden = append(hidden, example)
			}
		}
	}
	return channels, examples, hidden
}

// The channels can be set by flags, the environment, a flat file, or the channels section of a file.
func TestChannelsFromEverySource(t *testing.T) {
	t.Parallel()
	want, every, hidden := everyChannelSetting(t)
	var flags, environ, flat, section []string
	section = append(section, "channels:")
	for name, value := range every {
		flags = append(flags, "--"+name+"="+value)
		environ = append(environ, "PACER_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
		flat = append(flat, fmt.Sprintf("%s: '%s'", name, value))
		channel, _, _ := strings.Cut(name, "-")
		if !strings.Contains(strings.Join(section, "\n"), "  "+channel+":") {
			section = append(section, "  "+channel+":")
			for other, value := range every {
				if rest, ok := strings.CutPrefix(other, channel+"-"); ok {
					section = append(section, fmt.Sprintf("    %s: '%s'", strings.ReplaceAll(rest, "-", "_"), value))
				}
			}
		}
	}
	for source, c := range map[string]struct{ environ, args []string }{
		"flags":       {args: append([]string{"serve"}, flags...)},
		"environment": {environ: environ, args: []string{"serve"}},
		"flat file":   {args: []string{"serve", "--config", settingsFile(t, flat...)}},
		"section":     {args: []string{"serve", "--config", settingsFile(t, section...)}},
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			p, err := parse(t, append(c.environ, "DATABASE_URL=postgres://d", "PACER_UNSUBSCRIBE_KEY="+linkKey), c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, p.Serve.Channels); diff != "" {
				t.Errorf("the channels differ (-want +got):\n%s", diff)
			}
			shown := fmt.Sprintf("%v %+v %#v", p.Serve.Server, p.Serve.Channels, p.Serve.Server)
			for _, value := range hidden {
				if strings.Contains(shown, value) {
					t.Errorf("%s is shown: %s", value, shown)
				}
			}
		})
	}
}

// Each channel bounds its contents as documented; the schema's pacer.fault has the same bounds.
func TestLimitsOfContents(t *testing.T) {
	t.Parallel()
	long := map[notification.Channel]bool{"webhook": true, "email": true, "log": true}
	for _, c := range (settings.Channels{}).All() {
		want := 4096
		if long[c.Name] {
			want = 262_144
		}
		if got := c.MostContent(); got != want {
			t.Errorf("%s takes contents of %d bytes, want %d", c.Name, got, want)
		}
	}
}

func TestCredentialsFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	p, err := parse(t, nil, "serve", "--webpush-subject=https://example.com", "--webpush-key="+write("key", "canary\n"))
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := p.Serve.Resolve()
	if err != nil || resolved.Channels.WebPush.Key != "canary" {
		t.Errorf("the key is %q, %v", resolved.Channels.WebPush.Key, err)
	}
	p, err = parse(t, nil, "serve", "--webhook-secret="+write("hook", secret+",\n"+secret+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if resolved, err := p.Serve.Resolve(); err != nil ||
		strings.Count(resolved.Channels.Webhook.Secret, "whsec_") != 2 {
		t.Errorf("the webhook's secrets: %v", err)
	}
	for name, test := range map[string]struct{ file, sentence string }{
		"away": {
			file: "file:" + dir + "/none", sentence: "can't be read: open " + dir + "/none: no such file or directory",
		},
		"empty": {file: write("empty", "\n"), sentence: "names an empty file"},
		"too long": {
			file: write("long", strings.Repeat("x", 65537)), sentence: "names a file of more than 65536 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, nil, "serve", "--webpush-subject=https://example.com", "--webpush-key="+test.file)
			wantRefusals(t, err, "--webpush-key (PACER_WEBPUSH_KEY) "+test.sentence)
		})
	}
}

func TestChannelsThatLackSomething(t *testing.T) {
	t.Parallel()
	refusals{
		"fcm without credentials": {
			flag: "fcm-project", value: "x", sentence: "needs --fcm-credentials (PACER_FCM_CREDENTIALS) to be set too",
		},
		"limits of no form": {flag: "email-limits", value: "5", sentence: `must be of the form 100/1s, is "5"`},
		"webpush without a subject": {
			flag: "webpush-key", value: "canary",
			sentence: "needs --webpush-subject (PACER_WEBPUSH_SUBJECT) to be set too",
		},
		"email without a sender": {
			flag: "email-server", value: "smtp://x", sentence: "needs --email-from (PACER_EMAIL_FROM) to be set too",
		},
		"ntfy without a server": {
			flag: "ntfy-token", value: "canary", sentence: "needs --ntfy-server (PACER_NTFY_SERVER) to be set too",
		},
		"ntfy with a path": {
			flag: "ntfy-server", value: "https://ntfy.sh/x",
			sentence: "must be a URL such as https://ntfy.sh, without a path",
		},
		"a proxy without a credential": {
			flag: "apns-proxy", value: "http://canary@proxy", sentence: "needs --apns-key (PACER_APNS_KEY) to be set too",
		},
		"slack with a URL": {
			flag: "slack-hosts", value: "https://hooks.slack.com",
			sentence: "must hold names of hosts without scheme, port or path, such as hooks.slack.com",
		},
		"teams with a port": {
			flag: "teams-hosts", value: "*.logic.azure.com:443",
			sentence: "must hold names of hosts without scheme, port or path, such as *.logic.azure.com",
		},
		"sms without an account": {
			flag: "sms-segments", value: "3", sentence: "needs --sms-account (PACER_SMS_ACCOUNT) to be set too",
		},
		"webhook target without a secret": {
			flag: "webhook-targets", value: "canary", sentence: "must hold entries such as hooks.example.com=whsec_...",
		},
		"webhook target with a wrong secret": {
			flag: "webhook-targets", value: "x=canary",
			sentence: "must be whsec_ and 24 to 64 random bytes in base64",
		},
	}.run(t, "serve")
	_, err := parse(t, nil, "serve", "--fcm-credentials={canary}", "--fcm-proxy=socks5://canary@proxy")
	wantRefusals(t, err, "--fcm-proxy (PACER_FCM_PROXY) must be a URL such as "+
		"http://user:password@proxy.example.com:3128, http or https, without a path")
	_, err = parse(t, nil, "serve", "--apns-key=canary", "--apns-key-id=x")
	wantRefusals(t, err,
		"--apns-key (PACER_APNS_KEY) needs --apns-team-id (PACER_APNS_TEAM_ID) to be set too",
		"--apns-key (PACER_APNS_KEY) needs --apns-topic (PACER_APNS_TOPIC) to be set too",
	)
}

func TestChannelsSectionRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"no channels": {
			text: "channels: x",
			want: "FILE:1:11: channels must hold channels, such as fcm: {credentials: file:fcm.json}",
		},
		"no settings": {
			text: "channels:\n  fcm: x",
			want: "FILE:2:8: channels.fcm must hold settings",
		},
		"an unknown setting": {
			text: "channels:\n  fcm: {colour: red}",
			want: `FILE:2:9: unknown setting "colour" of channel fcm`,
		},
		"twice in two ways": {
			text: "fcm-project: x\nchannels:\n  fcm: {project: y}",
			want: "FILE:3:9: fcm-project is already set on line 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := settingsFile(t, test.text)
			_, err := parse(t, nil, "serve", "--config", path)
			wantRefusals(t, err, strings.Replace(test.want, "FILE", path, 1))
		})
	}
}
