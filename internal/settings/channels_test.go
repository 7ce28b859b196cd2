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

// everyChannelSetting gives every setting of every channel its example. It also returns the examples by the names of
// the flags, and those that must never show.
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
			environ := append(c.environ, "DATABASE_URL=postgres://d", "PACER_UNSUBSCRIBE_KEY="+linkKey)
			p, err := parse(t, environ, c.args...)
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
	for name, file := range map[string]string{
		"away": "file:" + dir + "/none", "empty": write("empty", "\n"),
		"too long": write("long", strings.Repeat("x", 65537)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, nil, "serve", "--webpush-subject=https://example.com", "--webpush-key="+file)
			if err == nil || !strings.HasPrefix(err.Error(), "--webpush-key (PACER_WEBPUSH_KEY)") {
				t.Errorf("got %v", err)
			}
		})
	}
}
