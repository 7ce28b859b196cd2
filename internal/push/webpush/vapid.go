package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/pacer-notify/pacer/internal/secret"
)

const (
	// tokenLife is how long a token is valid; RFC 8292 allows 24 h. renewal is how long before its end a new one is
	// made.
	tokenLife = 12 * time.Hour
	renewal   = time.Hour
	// maxOrigins is how many tokens are kept. There has to be a bound, since endpoints come from input.
	maxOrigins = 1000
)

// vapid identifies the deployment to push services (RFC 8292). A token is signed once for each service and used again,
// since signing takes longer than the rest of a call.
type vapid struct {
	key     *ecdsa.PrivateKey
	public  string
	subject string

	mu     sync.Mutex
	tokens map[string]token // by origin
}

type token struct {
	text string
	ends time.Time
}

// newVAPID fails when the key is not valid, and does not show it.
func newVAPID(private secret.Secret, subject string) (*vapid, error) {
	raw, err := decode(private.Reveal())
	if err != nil {
		return nil, errors.New("the private key must be 32 bytes in base64url")
	}
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		return nil, errors.New("the private key must be a key of the curve P-256: 32 bytes in base64url")
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	if err := checkSubject(subject); err != nil {
		return nil, err
	}
	return &vapid{
		key: key, public: base64.RawURLEncoding.EncodeToString(point), subject: subject,
		tokens: map[string]token{},
	}, nil
}

func checkSubject(subject string) error {
	if address, ok := strings.CutPrefix(subject, "mailto:"); ok {
		if _, err := mail.ParseAddress(address); err == nil {
			return nil
		}
	}
	if u, err := url.Parse(subject); err == nil && u.Scheme == "https" && u.Host != "" {
		return nil
	}
	return errors.New("the subject must be an https URL or a mailto: address of whoever runs this deployment")
}

// authorization makes the text of the Authorization header for a push service.
func (v *vapid) authorization(origin string, now time.Time) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t, ok := v.tokens[origin]; ok && now.Before(t.ends.Add(-renewal)) {
		return t.text, nil
	}
	ends := now.Add(tokenLife)
	signed, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"aud": origin, "exp": ends.Unix(), "sub": v.subject,
	}).SignedString(v.key)
	if err != nil {
		return "", fmt.Errorf("sign for the push service: %w", err)
	}
	if len(v.tokens) >= maxOrigins {
		clear(v.tokens)
	}
	text := "vapid t=" + signed + ", k=" + v.public
	v.tokens[origin] = token{text, ends}
	return text, nil
}

// forget drops the token of a service that has refused it.
func (v *vapid) forget(origin string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.tokens, origin)
}
