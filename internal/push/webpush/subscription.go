package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// subscription is what a browser hands to the application.
type subscription struct {
	endpoint string
	// origin is the origin of the push service, as in RFC 6454.
	origin string
	public *ecdh.PublicKey
	auth   []byte
}

// decode reads base64 in any of the forms that browsers and tools use for keys.
func decode(text string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(text),
		"="))
}

// CheckTarget implements [push.Checker]. A target is a subscription, as PushSubscription.toJSON makes it.
func (c Checker) CheckTarget(to string) error {
	_, err := c.subscription(to)
	return err
}

// subscription reads a target. Its errors do not repeat the target, since whoever knows an endpoint may send to it.
func (c Checker) subscription(to string) (*subscription, error) {
	var given struct {
		Endpoint string
		Keys     struct{ P256dh, Auth string }
	}
	if err := json.Unmarshal([]byte(to), &given); err != nil {
		return nil, errors.New(`must be a subscription: {"endpoint":"https://…","keys":{"p256dh":"…","auth":"…"}}`)
	}
	endpoint, err := url.Parse(given.Endpoint)
	if err != nil || endpoint.Scheme != "https" {
		return nil, errors.New("endpoint: must be an https URL")
	}
	if err := c.CheckURL(given.Endpoint); err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	s := &subscription{endpoint: given.Endpoint, origin: "https://" + strings.TrimSuffix(strings.ToLower(endpoint.Host),
		":443")}
	point, err := decode(given.Keys.P256dh)
	if err == nil {
		s.public, err = ecdh.P256().NewPublicKey(point)
	}
	if err != nil {
		return nil, errors.New("keys.p256dh: must be a point of the curve P-256: 65 bytes in base64url")
	}
	if s.auth, err = decode(given.Keys.Auth); err != nil || len(s.auth) != 16 {
		return nil, errors.New("keys.auth: must be 16 bytes in base64url")
	}
	return s, nil
}
