package webpush

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
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
	key, err := parseKey(private.Reveal())
	if err != nil {
		return nil, err
	}
	public, err := publicText(key)
	if err != nil {
		return nil, err
	}
	if err := checkSubject(subject); err != nil {
		return nil, err
	}
	return &vapid{key: key, public: public, subject: subject, tokens: map[string]token{}}, nil
}

// checkSubject refuses subjects that push services refuse. Apple's gives the key the blame (403, BadJwtToken) for a
// subject with a blank or a name, or with a host that is not in the public DNS.
func checkSubject(subject string) error {
	const want = "the subject must be an https URL or a mailto: address of whoever runs this deployment"
	host := ""
	if address, ok := strings.CutPrefix(subject, "mailto:"); ok {
		parsed, err := mail.ParseAddress(address)
		if err != nil || parsed.Address != address {
			return errors.New(want + ", such as mailto:ops@example.com: without a name and without blanks")
		}
		host = address[strings.LastIndex(address, "@")+1:]
	} else if u, err := url.Parse(subject); err == nil && u.Scheme == "https" && u.User == nil {
		host = u.Hostname()
	}
	if host == "" {
		return errors.New(want)
	}
	if !isPublicName(host) {
		return fmt.Errorf("%s; its host must have a name in the public DNS, or Apple refuses it (BadJwtToken); it is %.100s",
			want, host)
	}
	return nil
}

// reserved are the top-level domains that are not in the public DNS.
var reserved = []string{"localhost", "local", "internal", "test", "invalid", "localdomain", "lan", "home", "corp"}

// isPublicName reports whether a host may be in the public DNS.
func isPublicName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	dot := strings.LastIndex(host, ".")
	return dot > 0 && !slices.Contains(reserved, host[dot+1:])
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
