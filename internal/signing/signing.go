// Package signing signs calls as Standard Webhooks says: with a secret that sender and receiver share (HMAC-SHA256,
// v1), or with a private key of which receivers know the public half (Ed25519, v1a).
package signing

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pacer-notify/pacer/internal/secret"
)

// Scheme is how a key signs.
type Scheme string

// The schemes.
const (
	HMAC    Scheme = "hmac"
	Ed25519 Scheme = "ed25519"
)

// What a key's text begins with.
const (
	prefixSecret  = "whsec_"
	prefixPrivate = "whsk_"
	prefixPublic  = "whpk_"
)

// The length of a shared secret, according to the Standard Webhooks specification.
const (
	minSecretBytes = 24
	maxSecretBytes = 64
)

// newSecretBytes is how long a secret is that Generate makes.
const newSecretBytes = 32

// Key signs calls. It prints as <secret>.
type Key struct {
	text   secret.Secret
	halves *halves
}

// halves are what a key signs with: one of the two.
type halves struct {
	shared  *standardwebhooks.Webhook
	private ed25519.PrivateKey
}

// howTo ends a refusal.
const howTo = "; this makes one: echo whsec_$(openssl rand -base64 32)"

// Parse reads a key: whsec_ and a shared secret, or whsk_ and a private key, in base64. Its errors follow the name of a
// field, and never show the key.
func Parse(text string) (Key, error) {
	if encoded, ok := strings.CutPrefix(text, prefixPrivate); ok {
		return parsePrivate(text, encoded)
	}
	encoded, ok := strings.CutPrefix(text, prefixSecret)
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	switch {
	case !ok || err != nil:
		return Key{}, fmt.Errorf("must be whsec_ and %d to %d random bytes in base64"+howTo, minSecretBytes, maxSecretBytes)
	case len(key) < minSecretBytes || len(key) > maxSecretBytes:
		return Key{}, fmt.Errorf("must hold %d to %d bytes after whsec_, in base64; it holds %d"+howTo,
			minSecretBytes, maxSecretBytes, len(key))
	}
	shared, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return Key{}, errors.New("can't be used") // the cause may quote it
	}
	return Key{secret.New(text), &halves{shared: shared}}, nil
}

// parsePrivate reads a private key: its seed, or the seed and the public key that belongs to it, as Svix writes it.
func parsePrivate(text, encoded string) (Key, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(key) != ed25519.SeedSize && len(key) != ed25519.PrivateKeySize {
		return Key{}, fmt.Errorf("must hold %d or %d bytes after whsk_, in base64", ed25519.SeedSize,
			ed25519.PrivateKeySize)
	}
	private := ed25519.NewKeyFromSeed(key[:ed25519.SeedSize])
	if len(key) == ed25519.PrivateKeySize && !private.Equal(ed25519.PrivateKey(key)) {
		return Key{}, errors.New("must hold a private key and the public key that belongs to it")
	}
	return Key{secret.New(text), &halves{private: private}}, nil
}

// Generate makes a new key's text.
func Generate(scheme Scheme) secret.Secret {
	bytes := make([]byte, newSecretBytes)
	_, _ = rand.Read(bytes) // it never fails
	if scheme == Ed25519 {
		return secret.New(prefixPrivate + base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(bytes)))
	}
	return secret.New(prefixSecret + base64.StdEncoding.EncodeToString(bytes))
}

// Scheme is how the key signs.
func (k Key) Scheme() Scheme {
	if k.halves.private != nil {
		return Ed25519
	}
	return HMAC
}

// Format hides the key from every verb of package fmt.
func (k Key) Format(state fmt.State, verb rune) { k.text.Format(state, verb) }

// Secret is the key's text.
func (k Key) Secret() secret.Secret { return k.text }

// Public is what receivers verify with, whpk_ and the public key; empty for a shared secret.
func (k Key) Public() string {
	if k.halves.private == nil {
		return ""
	}
	return prefixPublic + base64.StdEncoding.EncodeToString(k.halves.private[ed25519.SeedSize:])
}

// sign makes one signature.
func (k Key) sign(id string, at time.Time, payload []byte) (string, error) {
	if k.halves.private == nil {
		return k.halves.shared.Sign(id, at, payload)
	}
	signed := append([]byte(id+"."+strconv.FormatInt(at.Unix(), 10)+"."), payload...)
	return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(k.halves.private, signed)), nil
}

// Keys sign together. A receiver needs to know only one of them, so that one can replace another.
type Keys []Key

// ParseAll reads several keys.
func ParseAll(texts []secret.Secret) (Keys, error) {
	keys := make(Keys, len(texts))
	for i, text := range texts {
		var err error
		if keys[i], err = Parse(text.Reveal()); err != nil {
			return nil, fmt.Errorf("the secret %w", err)
		}
	}
	return keys, nil
}

// Sign makes the text of the header webhook-signature: one signature for each key, separated by spaces. It is empty
// without keys.
func (k Keys) Sign(id string, at time.Time, payload []byte) (string, error) {
	signatures := make([]string, len(k))
	for i, key := range k {
		var err error
		if signatures[i], err = key.sign(id, at, payload); err != nil {
			return "", fmt.Errorf("sign the webhook: %w", err)
		}
	}
	return strings.Join(signatures, " "), nil
}
