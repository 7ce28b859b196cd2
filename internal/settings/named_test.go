package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	secrets "github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/settings"
)

// A kind of channel can have several senders, each with a name and settings of its own.
func TestSendersWithNames(t *testing.T) {
	t.Parallel()
	p, err := parse(t, nil, "serve", "--config", settingsFile(t,
		"channels:", "  fcm: {credentials: canary}", `  "fcm:shop": {credentials: canary1, project: shop}`,
		"  fcm:news: {credentials: canary2, limits: [5/1s, 50/1m]}",
		"  email:billing: {server: 'smtp://mail.example', from: b@example.com}"))
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Named{
		"fcm:shop":      fcm.Settings{Credentials: "canary1", Project: "shop", Limits: []string{"600000/1m"}},
		"fcm:news":      fcm.Settings{Credentials: "canary2", Limits: []string{"5/1s", "50/1m"}},
		"email:billing": email.Settings{Server: "smtp://mail.example", From: "b@example.com"},
	}
	resolved, err := p.Serve.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, resolved.Channels.Named); diff != "" {
		t.Errorf("the named senders differ (-want +got):\n%s", diff)
	}
	var names []string
	for _, c := range resolved.Channels.All() {
		if c.Configured {
			names = append(names, string(c.Name))
		}
	}
	if got := strings.Join(names, " "); got != "webhook log fcm email:billing fcm:news fcm:shop" {
		t.Errorf("configured are %s", got)
	}
	if shown := fmt.Sprintf("%v %+v %#v", resolved, p.Serve.Server, p.Serve.Channels); strings.Contains(shown, "canary") ||
		!strings.Contains(shown, "channels.fcm:shop.project:shop") {
		t.Errorf("shown is %s", shown)
	}
}

// Every secret and connection string may stand in a file.
func TestEverySecretFromAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	p, err := parse(t, []string{
		"REDIS_URL=" + file("redis", "redis://u:canary@r"),
		"DATABASE_URL=" + file("database", "postgres://u:canary@d/x"),
		"PACER_API_TOKENS=plain," + file("tokens", "one,two\nthree"), "PACER_OPS_TOKEN=" + file("ops", "ops"),
		"PACER_WEBHOOK_TARGETS=" + file("targets", "a.example="+secret+"\nb.example="+secret),
		"PACER_NTFY_SERVER=https://ntfy.sh", "PACER_NTFY_TOKEN=" + file("ntfy", "canary"),
	}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Serve.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		r.Redis.Options.Password, r.DatabaseURL, strings.Join(r.APITokens, " "), r.OpsToken, r.Channels.Ntfy.Token,
		strings.Join(r.Channels.Webhook.Targets, " "), string(r.Setup),
	}
	want := []string{
		"canary", "postgres://u:canary@d/x", "plain one two three", "ops", "canary",
		"a.example=" + secret + " b.example=" + secret, "durable",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the secrets differ (-want +got):\n%s", diff)
	}
	if shown := fmt.Sprintf("%v %+v %#v", r, r, p.Serve.Server); strings.Contains(shown, "canary") {
		t.Errorf("shown is %s", shown)
	}
	for _, c := range r.Channels.All() {
		if (c.Renew != nil) != (c.Name == "ntfy" || c.Name == "webhook") {
			t.Errorf("channel %s is renewed: %t", c.Name, c.Renew != nil)
		}
	}
}

// The channel is described with what its file holds now.
func TestAChannelIsRenewedFromItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("canary1")
	p, err := parse(t, nil, "serve", "--config", settingsFile(t, "channels:",
		"  ntfy:alerts: {server: 'https://ntfy.sh', token: 'file:"+path+"'}"))
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := p.Serve.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	write("canary2") // before the channels are opened, or later
	all := resolved.Channels.All()
	alerts := all[len(all)-1]
	if reflect.DeepEqual(alerts.Files, secrets.Look(path)) {
		t.Error("nobody notices that it changed before the channels were opened")
	}
	fresh, err := alerts.Renew()
	if err != nil || fresh.Name != "ntfy:alerts" || alerts.Credential != "https://ntfy.shcanary1" ||
		fresh.Credential != "https://ntfy.shcanary2" {
		t.Errorf("renewed as %s (%v)", fresh.Name, err)
	}
	write("")
	if _, err := alerts.Renew(); err == nil || err.Error() != "channels.ntfy:alerts.token names an empty file" {
		t.Errorf("an empty file: %v", err)
	}
}
