package deployment_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/redistest"
)

var quiet = slog.New(slog.DiscardHandler)

// on returns the settings of a process on a Redis.
func on(t *testing.T, url string, partitions int) *settings.Resolved {
	t.Helper()
	where, err := settings.ParseRedisURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return &settings.Resolved{
		Setup: settings.SetupRedis, Redis: where, Partitions: partitions,
		Roles: []settings.Role{settings.RoleAPI, settings.RoleWorker},
	}
}

// open opens a deployment as a dispatcher with the policy and the channels email and log.
func open(t *testing.T, cfg *settings.Resolved, p *policy.Policy) (*deployment.Deployment, error) {
	t.Helper()
	channels := channel.Set{}
	for _, known := range (settings.Channels{}).All() {
		if known.Name == "email" || known.Name == notification.ChannelLog {
			channels[known.Name] = channel.Deployed{Descriptor: known}
		}
	}
	d, err := deployment.Open(t.Context(), deployment.Config{
		Settings: cfg, Policy: func() *policy.Policy { return p }, Channels: channels, Log: quiet,
	})
	if err == nil {
		t.Cleanup(func() { closes(t, d) })
	}
	return d, err
}

func closes(t *testing.T, d *deployment.Deployment) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func attach(t *testing.T, cfg *settings.Resolved) *deployment.Deployment {
	t.Helper()
	d, err := deployment.Attach(t.Context(), cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, d) })
	return d
}

func parse(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	onePolicy     = "version: 1\ncategories:\n  default: {limits: [{max: 1, per: 1s}]}\n  news: {limits: [{max: 1, per: 1h}]}\n"
	anotherPolicy = "version: 1\ncategories:\n  default: {limits: [{max: 2, per: 1s}]}\n"
)

func TestAProducerUsesWhatTheDispatcherPublished(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	dispatcher := on(t, url, 8)
	dispatcher.Templates = templates(t, map[string]string{"hi/default/body.txt": "hello {{.name}}"})
	if _, err := open(t, dispatcher, parse(t, onePolicy)); err != nil {
		t.Fatal(err)
	}
	settings := on(t, url, 16) // which the published number replaces
	producer := attach(t, settings)
	if settings.Partitions != 8 {
		t.Errorf("%d partitions, want those of the dispatcher", settings.Partitions)
	}
	if got := producer.Rules.CategoryNames(); strings.Join(got, " ") != "default news" {
		t.Errorf("categories %v, want those of the dispatcher's policy", got)
	}
	if got := producer.Rules.Names(); strings.Join(got, " ") != "email log" {
		t.Errorf("channels %v, want those of the dispatcher", got)
	}
	if err := producer.UsePublishedTemplates(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := &notification.Notification{Channel: notification.ChannelLog}
	request := &intake.Template{Name: "hi", Data: json.RawMessage(`{"name": "ada"}`)}
	if err := producer.Renderer()(request, n); err != nil || n.Body != "hello ada" {
		t.Errorf("rendered %q, %v", n.Body, err)
	}
}

func TestAProducerBeforeTheFirstDispatcherUsesItsOwnSettings(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	producer := attach(t, on(t, url, 4))
	if producer.Rules.CheckCategory("default") != nil || producer.Renderer() != nil {
		t.Error("want the built-in policy, and no templates")
	}
	_, err := open(t, on(t, url, 8), parse(t, onePolicy))
	refused(t, err, "has 4 partitions")
}

func TestARefusedDispatcherPublishesNothing(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	if _, err := open(t, on(t, url, 8), parse(t, onePolicy)); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, on(t, url, 16), parse(t, anotherPolicy))
	refused(t, err, "--partitions is 16")
	broken := on(t, url, 8)
	broken.Templates = filepath.Join(t.TempDir(), "nowhere")
	_, err = open(t, broken, parse(t, anotherPolicy))
	refused(t, err, "--templates")
	if producer := attach(t, on(t, url, 8)); producer.Rules.CheckCategory("news") != nil {
		t.Error("the policy of a refused process was published")
	}
}

func TestADispatcherWithoutTemplatesRemovesThoseOfTheDeployment(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	with := on(t, url, 8)
	with.Templates = templates(t, map[string]string{"hi/default/body.txt": "hello"})
	for _, step := range []struct {
		name string
		cfg  *settings.Resolved
		want bool
	}{{name: "With", cfg: with, want: true}, {name: "Without", cfg: on(t, url, 8)}} {
		if _, err := open(t, step.cfg, parse(t, onePolicy)); err != nil {
			t.Fatal(err)
		}
		producer := attach(t, on(t, url, 8))
		if err := producer.UsePublishedTemplates(t.Context()); err != nil || (producer.Renderer() != nil) != step.want {
			t.Errorf("%s: templates %t, want %t; %v", step.name, producer.Renderer() != nil, step.want, err)
		}
	}
}

// An HTML part goes where the channel takes it, unless the producer sends its own.
func TestTheHTMLPartOfATemplate(t *testing.T) {
	t.Parallel()
	cfg := on(t, redistest.URL(t), 8)
	cfg.Templates = templates(t, map[string]string{
		"hi/default/body.txt": "hello", "hi/default/body.html": "<b>hello</b>",
	})
	d, err := open(t, cfg, parse(t, onePolicy))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		channel        notification.Channel
		override, want string
	}{
		{name: "Email", channel: "email", want: `{"html":"\u003cb\u003ehello\u003c/b\u003e"}`},
		{
			name: "EmailWithOtherMembers", channel: "email", override: `{"reply_to":"a@example.com"}`,
			want: `{"html":"\u003cb\u003ehello\u003c/b\u003e","reply_to":"a@example.com"}`,
		},
		{
			name: "EmailWithItsOwnHTML", channel: "email", override: `{"html":"own"}`,
			want: `{"html":"own"}`,
		},
		{name: "OverrideThatIsNoObject", channel: "email", override: `[]`, want: `[]`},
		{name: "ChannelWithoutHTML", channel: notification.ChannelLog},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := &notification.Notification{Channel: c.channel, Override: json.RawMessage(c.override)}
			if err := d.Renderer()(&intake.Template{Name: "hi"}, n); err != nil {
				t.Fatal(err)
			}
			if n.Body != "hello" || string(n.Override) != c.want {
				t.Errorf("body %q, override %s, want %s", n.Body, n.Override, c.want)
			}
		})
	}
	err = d.Renderer()(&intake.Template{Name: "nope"}, &notification.Notification{})
	if fault, is := errors.AsType[*notification.FieldError](err); !is || fault.Field != "template.name" {
		t.Errorf("an unknown template: %v", err)
	}
}

func TestCommandsThatNeedBothStoresSaySo(t *testing.T) {
	t.Parallel()
	cfg := on(t, "redis://127.0.0.1:1", 8)
	for _, c := range []struct {
		name string
		run  func(context.Context) error
		says string
	}{
		{
			name: "Rebuild", says: "only a deployment with REDIS_URL and DATABASE_URL",
			run: func(ctx context.Context) error { _, err := deployment.Rebuild(ctx, cfg, quiet); return err },
		},
		{
			name: "Verify", says: "only a deployment with REDIS_URL and DATABASE_URL",
			run: func(ctx context.Context) error { return deployment.Verify(ctx, cfg, quiet, nil) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.run(t.Context()), c.says)
		})
	}
}

// templates writes a folder of templates.
func templates(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
