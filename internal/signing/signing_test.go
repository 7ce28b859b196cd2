package signing_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
)

func keyOf(t *testing.T, text string) signing.Key {
	t.Helper()
	key, err := signing.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// While an Ed25519 key replaces a secret, a receiver that knows either verifies the call: the secret with the library
// of Standard Webhooks, the public key with Go's own crypto/ed25519.
func TestBothSchemesTogether(t *testing.T) {
	t.Parallel()
	shared, private := signing.Generate(signing.HMAC), signing.Generate(signing.Ed25519)
	keys, err := signing.ParseAll([]secret.Secret{private, shared})
	if err != nil {
		t.Fatal(err)
	}
	now, payload := time.Now(), []byte(`{"type":"x"}`)
	header, err := keys.Sign("n1", now, payload)
	if err != nil {
		t.Fatal(err)
	}
	asymmetric, symmetric, _ := strings.Cut(header, " ")
	verifier, err := standardwebhooks.NewWebhook(shared.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	h := http.Header{}
	h.Set("Webhook-Id", "n1")
	h.Set("Webhook-Timestamp", stamp)
	h.Set("Webhook-Signature", header)
	if err := verifier.Verify(payload, h); err != nil || !strings.HasPrefix(symmetric, "v1,") {
		t.Errorf("the library says %v to %q", err, header)
	}
	encoded, found := strings.CutPrefix(asymmetric, "v1a,")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	public, publicErr := base64.StdEncoding.DecodeString(strings.TrimPrefix(keys[0].Public(), "whpk_"))
	if err != nil || publicErr != nil || !found ||
		!ed25519.Verify(public, []byte("n1."+stamp+"."+string(payload)), signature) {
		t.Errorf("%q does not verify with %q", asymmetric, keys[0].Public())
	}
	if keys[0].Scheme() != signing.Ed25519 || keys[1].Scheme() != signing.HMAC || keys[1].Public() != "" {
		t.Errorf("the schemes are %s and %s, the secret's public key %q", keys[0].Scheme(), keys[1].Scheme(),
			keys[1].Public())
	}
}

// A private key may be its seed alone, or the seed and the public key.
func TestPrivateKeysInBothForms(t *testing.T) {
	t.Parallel()
	whole := signing.Generate(signing.Ed25519).Reveal()
	bytes64, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(whole, "whsk_"))
	if err != nil {
		t.Fatal(err)
	}
	seed := "whsk_" + base64.StdEncoding.EncodeToString(bytes64[:32])
	if one, other := keyOf(t, whole).Public(), keyOf(t, seed).Public(); one != other || len(one) != 49 {
		t.Errorf("the public keys are %q and %q", one, other)
	}
}

func TestWrongKeysAreRefusedUnseen(t *testing.T) {
	t.Parallel()
	encode := base64.StdEncoding.EncodeToString
	foreign := append(bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)...)
	for text, want := range map[string]string{
		"":                                   "must be whsec_ and 24 to 64 random bytes in base64; this makes one: echo whsec_$(openssl rand -base64 32)",
		"hunter2":                            "must be whsec_",
		"whsec_hunter2":                      "must be whsec_",
		"whsec_" + encode([]byte("hunter2")): "must hold 24 to 64 bytes after whsec_, in base64; it holds 7",
		"whsec_" + encode(make([]byte, 65)):  "it holds 65",
		"whsk_" + encode([]byte("hunter2")):  "must hold 32 or 64 bytes after whsk_, in base64",
		"whsk_%":                             "must hold 32 or 64 bytes",
		"whsk_" + encode(foreign):            "the public key that belongs to it",
		"whpk_" + encode(make([]byte, 32)):   "must be whsec_",
		"whsec_" + encode(make([]byte, 32)) + "x": "must be whsec_",
	} {
		_, err := signing.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") ||
			strings.Contains(err.Error(), encode([]byte("hunter2"))) {
			t.Errorf("%q is refused with %v, want %q", text, err, want)
		}
	}
	if _, err := signing.ParseAll([]secret.Secret{secret.New("x")}); err == nil {
		t.Error("a wrong key among several is taken")
	}
}

// However a key is printed, it does not show.
func TestKeysDoNotShow(t *testing.T) {
	t.Parallel()
	for _, scheme := range []signing.Scheme{signing.HMAC, signing.Ed25519} {
		text := signing.Generate(scheme).Reveal()
		key := keyOf(t, text)
		raw, _ := base64.StdEncoding.DecodeString(text[strings.Index(text, "_")+1:])
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			for _, value := range []any{key, &key, signing.Keys{key}} {
				shown := fmt.Sprintf(format, value)
				numbers := strings.Trim(fmt.Sprintf("%d", raw[:8]), "[]")
				if strings.Contains(shown, text[8:]) || strings.Contains(shown, numbers) {
					t.Errorf("%s of a key shows it: %s", format, shown)
				}
			}
		}
	}
}
