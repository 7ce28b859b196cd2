package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/apns"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/internal/push/ntfy"
	"github.com/pacer-notify/pacer/internal/push/slack"
	"github.com/pacer-notify/pacer/internal/push/sms"
	"github.com/pacer-notify/pacer/internal/push/teams"
	"github.com/pacer-notify/pacer/internal/push/webhook"
	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/settings"
)

// every is each setting of the channels, by its flag's name.
var every = map[string]string{
	"webhook-targets": "hooks.example.com=" + secret, "fcm-credentials": "{canary}", "fcm-project": "demo",
	"fcm-endpoint": "https://fcm.example.com", "fcm-proxy": "http://canary@proxy",
	"apns-key": "canarykey", "apns-key-id": "ABCDEFGHIJ", "apns-team-id": "KLMNOPQRST",
	"apns-topic": "com.example.app", "apns-endpoint": "sandbox", "apns-proxy": "https://canary@proxy",
	"webpush-key": "canaryvapid", "webpush-subject": "mailto:ops@example.com",
	"email-server":   "smtp://pacer@mail.example.com",
	"email-password": "canarypassword", "email-from": "Pacer <pacer@example.com>",
	"webhook-limits": "1/1s", "fcm-limits": "2/1s", "apns-limits": "3/1s", "webpush-limits": "4/1s",
	"email-limits": "5/1s",
	"ntfy-server":  "https://ntfy.sh", "ntfy-token": "canarytoken", "ntfy-limits": "6/1s",
	"slack-hosts": "hooks.slack.com", "slack-limits": "7/1s",
	"teams-hosts": "*.logic.azure.com", "teams-limits": "8/1s",
	"sms-account": "AC0123456789", "sms-token": "canarysms", "sms-from": "+15005550006", "sms-segments": "3",
	"sms-endpoint": "https://sms.example.com", "sms-limits": "9/1s",
}

func everyChannel() settings.Channels {
	return settings.Channels{
		Webhook: webhook.Settings{Targets: []string{every["webhook-targets"]}, Limits: []string{"1/1s"}},
		FCM: fcm.Settings{
			Credentials: "{canary}", Project: "demo", Endpoint: "https://fcm.example.com",
			Proxy: "http://canary@proxy", Limits: []string{"2/1s"},
		},
		APNs: apns.Settings{
			Key: "canarykey", KeyID: "ABCDEFGHIJ", TeamID: "KLMNOPQRST", Topic: "com.example.app", Endpoint: "sandbox",
			Proxy: "https://canary@proxy", Limits: []string{"3/1s"},
		},
		WebPush: webpush.Settings{Key: "canaryvapid", Subject: "mailto:ops@example.com", Limits: []string{"4/1s"}},
		Email: email.Settings{
			Server: "smtp://pacer@mail.example.com", Password: "canarypassword", From: "Pacer <pacer@example.com>",
			Limits: []string{"5/1s"},
		},
		Ntfy:  ntfy.Settings{Server: "https://ntfy.sh", Token: "canarytoken", Limits: []string{"6/1s"}},
		Slack: slack.Settings{Hosts: []string{"hooks.slack.com"}, Limits: []string{"7/1s"}},
		Teams: teams.Settings{Hosts: []string{"*.logic.azure.com"}, Limits: []string{"8/1s"}},
		SMS: sms.Settings{
			Account: "AC0123456789", Token: "canarysms", From: "+15005550006", Segments: "3",
			Endpoint: "https://sms.example.com", Limits: []string{"9/1s"},
		},
	}
}

// The channels can be set by flags, the environment, a flat file, or the channels section of a file.
func TestChannelsFromEverySource(t *testing.T) {
	t.Parallel()
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
			p, err := parse(t, c.environ, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(everyChannel(), p.Serve.Channels); diff != "" {
				t.Errorf("the channels differ (-want +got):\n%s", diff)
			}
			shown := fmt.Sprintf("%v %+v %#v", p.Serve.Server, p.Serve.Channels, p.Serve.Server)
			if strings.Contains(shown, "canary") {
				t.Errorf("a secret is shown: %s", shown)
			}
		})
	}
}

// Each channel bounds its contents as documented; the schema's pacer.fault has the same bounds.
func TestLimitsOfContents(t *testing.T) {
	t.Parallel()
	want := map[notification.Channel]int{
		"fcm": 4096, "apns": 4096, "webpush": 4096, "webhook": 262_144, "email": 262_144, "log": 262_144,
		"ntfy": 4096, "slack": 4096, "teams": 4096, "sms": 4096,
	}
	got := map[notification.Channel]int{}
	for _, c := range (settings.Channels{}).All() {
		got[c.Name] = c.MostContent()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits differ (-want +got):\n%s", diff)
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
