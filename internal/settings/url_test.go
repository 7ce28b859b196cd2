package settings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/settings"
)

// withURLs is a command line with every setting that is or may be a URL.
type withURLs struct {
	Serve struct{ settings.Server }    `cmd:""`
	Send  struct{ settings.Client }    `cmd:""`
	Ask   struct{ settings.OpsClient } `cmd:""`
}

// shows is all that a program can say of a flag's value: why it is refused, or the settings that it is part of.
func (c *withURLs) shows(t *testing.T, command, flag, value string) (text string, refused bool) {
	t.Helper()
	parser, err := settings.NewParser(c, "program", "Tests settings.", settings.Environ(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settings.Parse(parser, []string{command, "--" + flag + "=" + value}); err != nil {
		return err.Error(), true
	}
	resolved, err := c.Serve.Resolve()
	ops, opsErr := c.Ask.Resolve()
	return fmt.Sprintln(resolved, err, ops, opsErr), err != nil || opsErr != nil
}

// No part of a password in a URL shows, in whatever setting it stands and whatever was not encoded: not in a refusal,
// and not where the settings are printed. A connection string is refused where the driver would end the password early.
func TestNoSettingShowsAPartOfAPassword(t *testing.T) {
	t.Parallel()
	parser, err := settings.NewParser(&withURLs{}, "program", "Tests settings.")
	if err != nil {
		t.Fatal(err)
	}
	var tried []string
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			if !strings.Contains(flag.PlaceHolder+flag.Help, "URL") && flag.PlaceHolder != "HOST:PORT" {
				continue
			}
			tried = append(tried, flag.Name)
			for s, scheme := range []string{"postgres://", "redis://", "https://", ""} {
				for p, password := range []string{
					"tr0ub@4dor", "tr0ub/4dor", "tr0ub?4dor", "tr0ub#4dor", "tr0ub%zz4dor", "tr0ub:4dor", "tr0ub 4dor",
					"tr0ub@/4dor", "1/4dor", "1?x=4dor", "1#4dor", "1@4dor:2/", "@4dor", "4dor@", "4dor/",
					"tr0ub[4dor", "tr0ub\x014dor",
				} {
					// Settings have their types in common: each password meets each scheme at some of them.
					if flag.Name != "database-url" && (p+len(tried))%4 != s {
						continue
					}
					url := scheme + "pacer:" + password + "@127.0.0.1:1/x"
					shown, refused := (&withURLs{}).shows(t, command.Name, flag.Name, url)
					if strings.Contains(shown, "tr0ub") || strings.Contains(shown, "4dor") {
						t.Errorf("%s --%s=%s shows: %s", command.Name, flag.Name, url, shown)
					}
					if flag.Name == "database-url" && strings.ContainsAny(password, "@/?#%") && !refused {
						t.Errorf("%s is accepted", url)
					}
				}
			}
		}
	}
	for _, name := range []string{
		"redis-url", "database-url", "public-url", "events-endpoints", "server", "ops-listen", "fcm-proxy",
		"email-server",
	} {
		if !slices.Contains(tried, name) {
			t.Errorf("--%s was not tried: its help does not say that it is a URL", name)
		}
	}
}
