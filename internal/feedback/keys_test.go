package feedback_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/feedback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Keys that tests sign with.
var (
	oldKey = strings.Repeat("o", feedback.MinKey)
	newKey = strings.Repeat("n", feedback.MinKey)
)

func keys(tb testing.TB, texts ...string) *feedback.Keys {
	tb.Helper()
	k, err := feedback.NewKeys(texts...)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// A link says what it was made for, whatever user and category are. No link with a single character changed does.
func TestLinksAreReadAsTheyWereMade(t *testing.T) {
	t.Parallel()
	k := keys(t, newKey)
	rapid.Check(t, func(rt *rapid.T) {
		link := feedback.Link{UserID: rapid.String().Draw(rt, "user"), Category: rapid.String().Draw(rt, "category")}
		token := k.LinkToken(link)
		if got, err := k.ReadLink(token); err != nil || got != link {
			rt.Fatalf("%+v, %v; want %+v", got, err, link)
		}
		at := rapid.IntRange(0, len(token)-1).Draw(rt, "at")
		other := rapid.SampledFrom([]byte("ABCxyz019-_=%")).Draw(rt, "other")
		if changed := token[:at] + string(other) + token[at+1:]; changed != token {
			if got, err := k.ReadLink(changed); err == nil {
				rt.Fatalf("a changed token gives %+v", got)
			}
		}
	})
}

// A link of a key that was replaced holds as long as the key is listed. What another deployment signed, or signed for
// another purpose, does not.
func TestWhichLinksHold(t *testing.T) {
	t.Parallel()
	link := feedback.Link{UserID: "ada", Category: "chat"}
	before := keys(t, oldKey).LinkToken(link)
	for name, c := range map[string]struct {
		keys  []string
		token string
		holds bool
	}{
		"signed before the change": {keys: []string{newKey, oldKey}, token: before, holds: true},
		"the key is gone":          {keys: []string{newKey}, token: before},
		"another purpose":          {keys: []string{oldKey}, token: keys(t, oldKey).AddressToken("n1", "ada@example.com")},
		"nothing":                  {keys: []string{oldKey}},
		"no key":                   {token: before},
		"a later form": {
			keys:  []string{oldKey},
			token: base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\x02", 40))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := keys(t, c.keys...).ReadLink(c.token); (err == nil) != c.holds || c.holds && got != link {
				t.Errorf("gives %+v, %v", got, err)
			}
		})
	}
	if keys(t, newKey, oldKey).LinkToken(link) != keys(t, newKey).LinkToken(link) {
		t.Error("the first key does not sign")
	}
}

// The token of a return address leaves room before it, whatever the notification's id is, and survives a mail server
// that changes upper and lower case.
func TestReturnAddressesAreShort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		token := keys(t, newKey).AddressToken(rapid.String().Draw(rt, "id"), rapid.String().Draw(rt, "address"))
		if len(token) != feedback.AddressToken || strings.ToLower(token) != token {
			rt.Fatalf("the token is %s", token)
		}
	})
}

func TestKeysThatAreTooShortAreRefused(t *testing.T) {
	t.Parallel()
	_, err := feedback.NewKeys(newKey, "canary")
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "number 2 has 6") {
		t.Errorf("gives %v", err)
	}
	k := keys(t, newKey)
	if shown := fmt.Sprintf("%v %+v %#v", k, k, k); strings.Contains(shown, "nnn") {
		t.Errorf("it shows %s", shown)
	}
}

// Keys that are replaced while they are in use sign anew. What can't replace them leaves them as they are.
func TestKeysAreReplaced(t *testing.T) {
	t.Parallel()
	k, link := keys(t, oldKey), feedback.Link{UserID: "ada", Category: "chat"}
	before := k.LinkToken(link)
	for _, wrong := range [][]string{{"short"}, {}} {
		if err := k.Renew(t.Context(), wrong); err == nil || k.LinkToken(link) != before {
			t.Errorf("%q replaces them: %v", wrong, err)
		}
	}
	if err := k.Renew(t.Context(), []string{newKey, oldKey}); err != nil || k.LinkToken(link) == before {
		t.Errorf("they are not replaced: %v", err)
	}
	if _, err := k.ReadLink(before); err != nil {
		t.Error("a link of the key before does not hold")
	}
}

func FuzzReadLink(f *testing.F) {
	k := keys(f, newKey)
	f.Add(k.LinkToken(feedback.Link{UserID: "ada", Category: "chat"}))
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		if link, err := k.ReadLink(token); err == nil && k.LinkToken(link) != token {
			t.Errorf("%q is read as %+v, whose token is %s", token, link, k.LinkToken(link))
		}
	})
}
