package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
)

// KeyPair identifies a deployment to push services (RFC 8292), as text in base64url. A browser that has subscribed with
// the public key only takes what is signed with the private one, so a new pair ends all subscriptions.
type KeyPair struct {
	// Private is for the setting --webpush-key. It is a secret.
	Private string `json:"private_key,omitempty"`
	// Public is for browsers: the applicationServerKey with which a page subscribes.
	Public string `json:"public_key"`
}

// GenerateKeys makes a new pair.
func GenerateKeys() (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("make a key: %w", err)
	}
	private, err := key.Bytes()
	if err != nil {
		return KeyPair{}, fmt.Errorf("make a key: %w", err)
	}
	public, err := publicText(key)
	return KeyPair{Private: base64.RawURLEncoding.EncodeToString(private), Public: public}, err
}

// PublicKey returns the public key that belongs to a private one. It fails when that is not valid, and does not show
// it.
func PublicKey(private string) (string, error) {
	key, err := parseKey(private)
	if err != nil {
		return "", err
	}
	return publicText(key)
}

// parseKey reads a private key.
func parseKey(text string) (*ecdsa.PrivateKey, error) {
	raw, err := decode(text)
	if err != nil {
		return nil, errors.New("the private key must be 32 bytes in base64url; dispatcher vapid generate makes one")
	}
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		return nil, errors.New("the private key must be a key of the curve P-256: 32 bytes in base64url; dispatcher vapid generate makes one")
	}
	return key, nil
}

// publicText is the public key as browsers want it: an uncompressed point.
func publicText(key *ecdsa.PrivateKey) (string, error) {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return "", fmt.Errorf("write the public key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(point), nil
}
