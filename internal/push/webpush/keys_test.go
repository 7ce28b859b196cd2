package webpush_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/webpush"
	"github.com/pacer-notify/pacer/internal/secret"
)

// A generated pair is one that the channel takes, and that belongs together; no two are alike.
func TestGeneratedKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 20 {
		pair, err := webpush.GenerateKeys()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := webpush.New(webpush.Config{
			PrivateKey: secret.New(pair.Private), Subject: "mailto:ops@example.com",
		}); err != nil {
			t.Errorf("the channel refuses a generated key: %v", err)
		}
		public, err := webpush.PublicKey(pair.Private)
		if err != nil || public != pair.Public || seen[public] {
			t.Errorf("the public key is %s (%v), want %s; seen before: %v", public, err, pair.Public, seen[public])
		}
		seen[public] = true
		if raw, err := base64.RawURLEncoding.DecodeString(public); err != nil || len(raw) != 65 || raw[0] != 4 {
			t.Errorf("%s is no uncompressed point: %v", public, err)
		}
	}
}

// A refusal of a key does not show it, and says how to get one.
func TestWrongKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, private := range []string{"", "geheim!", "Z2VoZWlt", strings.Repeat("A", 43)} {
		public, err := webpush.PublicKey(private)
		if err == nil || public != "" || !strings.Contains(err.Error(), "dispatcher vapid generate") ||
			private != "" && strings.Contains(err.Error(), private) {
			t.Errorf("%q: got %q and %v", private, public, err)
		}
	}
}

func ExamplePublicKey() {
	public, err := webpush.PublicKey("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE")
	fmt.Println(public, err)
	// Output: BG_wO5SSQc4drdQ1GeaWDgqFtBppoFwygQOqK84VlMoWPE91OlW_AdxT9sCwx-7ni0DG_30lqW4igrmJzvccFEo <nil>
}
