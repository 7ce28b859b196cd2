package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/feedback"
)

const linkKey = "0123456789abcdef0123456789abcdef"

// The links of e-mails need somewhere to lead to, a key and a store of what users want. A bounce address needs the key.
func TestSettingsOfLinks(t *testing.T) {
	t.Parallel()
	const postgres = "DATABASE_URL=postgres://d/x"
	for name, environ := range map[string][]string{
		"all of them": {
			postgres, "PACER_PUBLIC_URL=https://notify.example.com/x/", "PACER_UNSUBSCRIBE_KEY=" + linkKey + "," + linkKey,
		},
		"this machine": {
			postgres, "PACER_PUBLIC_URL=http://127.0.0.1:8080", "PACER_UNSUBSCRIBE_KEY=" + linkKey,
		},
		"Redis": {
			"REDIS_URL=redis://r", "PACER_PUBLIC_URL=https://notify.example.com", "PACER_UNSUBSCRIBE_KEY=" + linkKey,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := parse(t, environ, "serve")
			if err != nil {
				t.Fatal(err)
			}
			if r, err := p.Serve.Resolve(); err != nil || strings.HasSuffix(r.PublicURL, "/") || r.Keys.None() {
				t.Errorf("resolved to %v (%v)", r, err)
			}
		})
	}
}

func TestTheKeyOfLinksMayBeInAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(linkKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := parse(t, []string{"PACER_UNSUBSCRIBE_KEY=file:" + path}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Serve.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	want, err := feedback.NewKeys(linkKey)
	if err != nil {
		t.Fatal(err)
	}
	link := feedback.Link{UserID: "ada", Category: "chat"}
	if r.Keys.LinkToken(link) != want.LinkToken(link) {
		t.Error("the key is not that of the file")
	}
}
