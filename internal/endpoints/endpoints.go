// Package endpoints keeps the webhook endpoints of a deployment: URLs that were registered, with keys and headers of
// their own, and with their health. An endpoint that does nothing but fail for days is disabled.
//
//	Service    what the API does with endpoints
//	Store      where they are kept
//	Directory  what a process knows of them in memory, by URL; it watches what becomes of deliveries
package endpoints

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
)

// Endpoint is a registered URL.
type Endpoint struct {
	ID string
	// URL is as it was registered; [Normal] compares it.
	URL         string
	Description string
	// Headers are sent with each call, by canonical name. Their values may be credentials.
	Headers map[string]string
	// Secret signs each call. Old are those that it replaced, newest first; each signs beside it for a while.
	Secret secret.Secret
	Old    []OldSecret
	// CreatedAt is when it was registered, UpdatedAt when somebody last changed it; its health is no such change.
	CreatedAt, UpdatedAt time.Time
	Health
}

// OldSecret is a secret that was replaced. It signs until then.
type OldSecret struct {
	Secret secret.Secret
	Until  time.Time
}

const (
	// MaxEndpoints is how many a deployment may have: every process keeps all of them in memory.
	MaxEndpoints = 10_000
	// MaxPage is how many a page may list.
	MaxPage = 1000
	// OldSigns is how long a secret that was replaced signs beside the new one.
	OldSigns = 24 * time.Hour
	// maxOld is how many replaced secrets may sign beside the new one.
	maxOld = 3
	// removedKept is how long an id is in use after its endpoint was removed.
	removedKept = time.Hour
)

// The errors that callers may want to know.
var (
	ErrNotFound = errors.New("no webhook endpoint has this id")
	ErrTooMany  = fmt.Errorf("the deployment already has %d webhook endpoints, the most that it may have", MaxEndpoints)
	// ErrRotated says that a secret was replaced too often of late.
	ErrRotated = fmt.Errorf(
		"the secret was replaced %d times within %s, and all of these secrets still sign: wait until one has expired", maxOld, OldSigns)
)

// TakenError says that a URL is registered already, or an id is in use.
type TakenError struct {
	// ID is that of the endpoint that has it, Field what is taken: url or id.
	ID, Field string
}

// Error reads "url: is registered already, as webhook endpoint ep_1".
func (e *TakenError) Error() string {
	if e.Field == fieldID {
		return "id: is in use, by a webhook endpoint that is registered or was removed within the last hour"
	}
	return "url: is registered already, as webhook endpoint " + e.ID
}

// fieldID and fieldURL are what can be taken.
const fieldID, fieldURL = "id", "url"

// Normal is the form in which URLs are compared: scheme and host in lower case, without the scheme's own port. Whatever
// is no URL stays as it is.
func Normal(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	u.Scheme, u.Host, u.Fragment, u.RawFragment = strings.ToLower(u.Scheme), strings.ToLower(u.Host), "", ""
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}

// Keys sign a call to the endpoint at a moment of the store's clock.
func (e *Endpoint) Keys(now time.Time) (signing.Keys, error) {
	secrets := []secret.Secret{e.Secret}
	for _, old := range e.Old {
		if old.Until.After(now) {
			secrets = append(secrets, old.Secret)
		}
	}
	return signing.ParseAll(secrets)
}

// Header are the endpoint's own headers, for a request.
func (e *Endpoint) Header() http.Header {
	header := make(http.Header, len(e.Headers))
	for name, value := range e.Headers {
		header[name] = []string{value}
	}
	return header
}

// HeaderNames are the names of the endpoint's own headers, in order.
func (e *Endpoint) HeaderNames() []string {
	names := make([]string, 0, len(e.Headers))
	for name := range e.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// rotate replaces the secret.
func (e *Endpoint) rotate(next secret.Secret, now time.Time) error {
	e.Old = slices.DeleteFunc(slices.Clone(e.Old), func(old OldSecret) bool { return !old.Until.After(now) })
	if len(e.Old) >= maxOld {
		return ErrRotated
	}
	e.Old = slices.Insert(e.Old, 0, OldSecret{Secret: e.Secret, Until: now.Add(OldSigns)})
	e.Secret, e.UpdatedAt = next, now
	return nil
}
