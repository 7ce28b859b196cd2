package secret

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"
)

// Tokens are bearer tokens that requests are compared with. Others can replace them while requests come in. Nil and the
// zero value have no token. They are safe for concurrent use.
type Tokens struct {
	known atomic.Pointer[[][sha256.Size]byte]
}

// NewTokens makes Tokens of their texts; empty ones are left out.
func NewTokens(texts ...string) *Tokens {
	t := &Tokens{}
	t.Set(texts...)
	return t
}

// Set replaces all of them at once.
func (t *Tokens) Set(texts ...string) {
	var known [][sha256.Size]byte
	for _, text := range texts {
		if text != "" {
			known = append(known, sha256.Sum256([]byte(text)))
		}
	}
	t.known.Store(&known)
}

// Renew is Set in the form that a [Source] asks for.
func (t *Tokens) Renew(_ context.Context, texts []string) error {
	t.Set(texts...)
	return nil
}

// Any reports whether there is a token.
func (t *Tokens) Any() bool { return len(t.all()) > 0 }

// Has reports whether a text is one of the tokens. It compares their hashes, in constant time.
func (t *Tokens) Has(text string) bool {
	given, match := sha256.Sum256([]byte(text)), 0
	for _, known := range t.all() {
		match |= subtle.ConstantTimeCompare(given[:], known[:])
	}
	return match == 1
}

func (t *Tokens) all() [][sha256.Size]byte {
	if t == nil {
		return nil
	}
	if known := t.known.Load(); known != nil {
		return *known
	}
	return nil
}
