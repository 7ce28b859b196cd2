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
	const postgres, email = "DATABASE_URL=postgres://d/x", "PACER_EMAIL_SERVER=smtp://mail"
	for name, c := range map[string]struct {
		environ []string
		want    string // "" is no fault
	}{
		"all of them": {environ: []string{
			postgres, "PACER_PUBLIC_URL=https://notify.example.com/x/", "PACER_UNSUBSCRIBE_KEY=" + linkKey + "," + linkKey,
		}},
		"this machine": {environ: []string{
			postgres, "PACER_PUBLIC_URL=http://127.0.0.1:8080", "PACER_UNSUBSCRIBE_KEY=" + linkKey,
		}},
		"no key": {
			environ: []string{postgres, "PACER_PUBLIC_URL=https://notify.example.com"},
			want:    "--public-url (PACER_PUBLIC_URL) needs --unsubscribe-key (PACER_UNSUBSCRIBE_KEY) to be set too",
		},
		"Redis": {environ: []string{
			"REDIS_URL=redis://r", "PACER_PUBLIC_URL=https://notify.example.com", "PACER_UNSUBSCRIBE_KEY=" + linkKey,
		}},
		"no store": {
			environ: []string{"PACER_PUBLIC_URL=https://notify.example.com", "PACER_UNSUBSCRIBE_KEY=" + linkKey},
			want: "--public-url (PACER_PUBLIC_URL) needs --redis-url (REDIS_URL) to be set too, or " +
				"--database-url: else a restart forgets what users unsubscribed from",
		},
		"no https": {
			environ: []string{postgres, "PACER_PUBLIC_URL=http://notify.example.com", "PACER_UNSUBSCRIBE_KEY=" + linkKey},
			want:    "--public-url (PACER_PUBLIC_URL) must begin with https://, since mail providers call no other",
		},
		"no URL": {
			environ: []string{postgres, "PACER_PUBLIC_URL=notify.example.com", "PACER_UNSUBSCRIBE_KEY=" + linkKey},
			want:    "--public-url (PACER_PUBLIC_URL) must be a URL such as https://notify.example.com",
		},
		"a short key": {
			environ: []string{"PACER_UNSUBSCRIBE_KEY=canary"},
			want: "--unsubscribe-key (PACER_UNSUBSCRIBE_KEY) must have at least 32 characters, number 1 has 6; make one " +
				"with openssl rand -hex 32",
		},
		"a bounce address without a key": {
			environ: []string{email, "PACER_EMAIL_FROM=a@example.com", "PACER_EMAIL_BOUNCE_ADDRESS=bounces@example.com"},
			want: "--email-bounce-address (PACER_EMAIL_BOUNCE_ADDRESS) needs --unsubscribe-key (PACER_UNSUBSCRIBE_KEY) to be " +
				"set too",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := parse(t, c.environ, "serve")
			if c.want != "" {
				if err == nil || err.Error() != c.want {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			}
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
