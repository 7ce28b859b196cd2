// Package webpushtest is the other side of Web Push for tests: the browser that subscribes, and what its push service
// checks.
package webpushtest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var base64url = base64.RawURLEncoding

// Browser is a subscriber: it decrypts as RFC 8291 says.
type Browser struct {
	Private *ecdh.PrivateKey
	Auth    []byte
}

// New makes a subscriber with keys of its own.
func New(tb testing.TB) Browser {
	tb.Helper()
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	auth := make([]byte, 16)
	_, _ = rand.Read(auth)
	return Browser{private, auth}
}

// Subscription is what the browser hands to the application.
func (b Browser) Subscription(endpoint string) string {
	return fmt.Sprintf(`{"endpoint":%q,"expirationTime":null,"keys":{"p256dh":%q,"auth":%q}}`,
		endpoint, base64url.EncodeToString(b.Private.PublicKey().Bytes()), base64url.EncodeToString(b.Auth))
}

// Decrypt reads a message of one record (RFC 8188) for this browser.
func (b Browser) Decrypt(message []byte) ([]byte, error) {
	if len(message) < 21+65+17 {
		return nil, errors.New("the message is too short")
	}
	salt, sender, sealed := message[:16], message[21:21+65], message[21+65:]
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, err
	}
	shared, err := b.Private.ECDH(public)
	if err != nil {
		return nil, err
	}
	info := "WebPush: info\x00" + string(b.Private.PublicKey().Bytes()) + string(sender)
	ikm, err := hkdf.Key(sha256.New, shared, b.Auth, info, 32)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	padded, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, err
	}
	plain, ok := bytes.CutSuffix(bytes.TrimRight(padded, "\x00"), []byte{2})
	if !ok {
		return nil, errors.New("the padding has no end")
	}
	return plain, nil
}

// Verify checks a call's VAPID credential as a push service does.
func Verify(r *http.Request, publicKey, subject string) error {
	var token, key string
	if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "vapid t=%s k=%s", &token, &key); err != nil {
		return err
	}
	if key != publicKey {
		return fmt.Errorf("the key is %s", key)
	}
	raw, err := base64url.DecodeString(key)
	if err != nil {
		return err
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw)
	if err != nil {
		return err
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(strings.TrimSuffix(token, ","), claims,
		func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience("https://"+r.Host), jwt.WithExpirationRequired(),
	); err != nil {
		return err
	}
	if end, err := claims.GetExpirationTime(); err != nil || time.Until(end.Time) > 24*time.Hour {
		return fmt.Errorf("it ends at %v", end)
	}
	if claims["sub"] != subject {
		return fmt.Errorf("the subject is %v", claims["sub"])
	}
	return nil
}
