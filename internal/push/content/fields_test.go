package content_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/fcm"
	"github.com/pacer-notify/pacer/internal/push/ntfy"
	"github.com/pacer-notify/pacer/internal/push/slack"
	"github.com/pacer-notify/pacer/internal/push/teams"
)

// Each member that a channel describes is refused with a value of any other kind, out of its range or not among its
// values; so is what producers of other systems write.
func TestOverridesThatTheProviderRefusesAreRefused(t *testing.T) {
	t.Parallel()
	wrong := map[content.Kind][]string{
		content.Text: {`5`, `["x"]`, `{"x":1}`, `true`}, content.YesNo: {`"yes"`, `1`},
		content.Whole:  {`"high"`, `"3"`, `1.5`, `[1]`, `99`, `-1`, `1e99`},
		content.Struct: {`"hello"`, `[]`, `7`}, content.Structs: {`"x"`, `["x"]`, `{"a":1}`},
		content.Texts: {`"a,b"`, `[1]`, `{"a":1}`}, content.TextMap: {`"x"`, `{"a":1}`, `[]`},
	}
	for _, c := range []struct {
		name    string
		checker push.Checker
		fields  content.Fields
		more    [][2]string // members, and the one that is refused
		good    string
	}{
		{
			"ntfy",
			ntfy.Checker{},
			ntfy.Fields,
			[][2]string{{`"priority":6`, "priority"}, {`"priority":0`, "priority"}},
			`"priority":5,"tags":["a","b"],"click":"https://x.test","markdown":true,"new":1`,
		},
		{"fcm", fcm.Checker{}, fcm.Fields, [][2]string{
			{`"android":{"priority":"urgent"}`, "android.priority"},
			{`"android":{"ttl":"5 minutes"}`, "android.ttl"},
			{`"android":{"notification":{"color":"red"}}`, "android.notification.color"},
			{`"topic":"news"`, "topic"},
		}, `"android":{"priority":"high","ttl":"3.5s","notification":{"color":"#aabbcc","sticky":true}},"new":{}`},
		{"slack", slack.Checker{}, slack.Fields, nil, `"blocks":[{"type":"divider"}],"unfurl_links":false`},
		{
			"teams",
			teams.Checker{},
			teams.Fields,
			[][2]string{{`"verticalContentAlignment":"up"`, "verticalContentAlignment"}},
			`"actions":[{}],"rtl":true,"verticalContentAlignment":"Center"`,
		},
	} {
		check := func(members string) error {
			return c.checker.CheckContent(&notification.Notification{
				ID: "n", To: "token", Title: "a", Body: "b", Override: json.RawMessage("{" + members + "}"),
			})
		}
		for _, f := range c.fields {
			for _, value := range wrong[f.Kind] {
				names := strings.Split(f.Path, ".")
				members := `"` + strings.Join(names, `":{"`) + `":` + value + strings.Repeat("}", len(names)-1)
				c.more = append(c.more, [2]string{members, f.Path})
			}
		}
		for _, m := range c.more {
			if err := check(m[0]); err == nil || !strings.HasPrefix(err.Error(), m[1]+": ") {
				t.Errorf("%s: %s gives %v, want it refused for %s", c.name, m[0], err, m[1])
			}
		}
		if err := check(c.good); err != nil {
			t.Errorf("%s: %s is refused: %v", c.name, c.good, err)
		}
	}
	if (fcm.Checker{}).CheckTarget("/topics/news") == nil {
		t.Error("a topic is taken for a token")
	}
}
