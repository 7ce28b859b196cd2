// Package endpoints keeps the webhook endpoints of a deployment: URLs that were registered, with keys and headers of
// their own, and with their health. An endpoint that does nothing but fail for days is disabled.
//
//	Service    what the API does with endpoints
//	Store      where they are kept: on Redis, or in Postgres
//	Directory  what a process knows of them in memory, by URL; it watches what becomes of deliveries
package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/events"
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
	// Removed is true of one that was removed, of which nothing is kept but its id.
	Removed bool
	// Version is the number of its latest change among those of all endpoints.
	Version int64
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
	// removedKept is how long it is known that an endpoint was removed. A process that has not read all changes
	// for half as long reads all endpoints again.
	removedKept = time.Hour
)

// Store keeps endpoints. Its times are of one clock.
type Store interface {
	// Position returns the number of the latest change, and the time.
	Position(ctx context.Context) (version int64, now time.Time, err error)
	// Changes returns the endpoints that have changed after a change with this number, removed ones too, in the order
	// of their latest changes, at most limit.
	Changes(ctx context.Context, after int64, limit int) ([]Endpoint, error)
	// Get returns one endpoint, or [ErrNotFound].
	Get(ctx context.Context, id string) (*Endpoint, error)
	// List returns the endpoints with ids beyond after, in the order of ids, at most limit.
	List(ctx context.Context, after string, limit int) ([]Endpoint, error)
	// Add keeps a new endpoint, and fills in the times that are zero. It returns a [*TakenError] when the URL or the id
	// is in use, and [ErrTooMany] when there are [MaxEndpoints].
	Add(ctx context.Context, e *Endpoint) error
	// Change changes an endpoint, alone: no other change comes between. now is the store's time. The events that change
	// returns are written together with it. When change returns an error, nothing changes, and that is returned.
	Change(ctx context.Context, id string, change func(e *Endpoint, now time.Time) ([]events.Event, error)) (
		*Endpoint, error)
	// Remove removes an endpoint. It returns [ErrNotFound] when there is none.
	Remove(ctx context.Context, id string) error
}

// The errors that callers may want to know.
var (
	ErrNotFound = errors.New("no webhook endpoint has this id")
	ErrTooMany  = fmt.Errorf("the deployment already has %d webhook endpoints, the most that it may have", MaxEndpoints)
	// ErrRotated says that a secret was replaced too often of late.
	ErrRotated = fmt.Errorf(
		"the secret was replaced %d times within %s, and all of these secrets still sign: wait until one has expired", maxOld, OldSigns)
	// errUnchanged ends a change that turns out to be none.
	errUnchanged = errors.New("nothing changes")
	// errTryAgain says that the endpoint was changed by somebody else at the same moment.
	errTryAgain = errors.New("others were changing the webhook endpoint at the same time; try again")
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

// takenBy says who has the URL or the id of an endpoint that is to be added.
func takenBy(owner, id string) error {
	if owner == id {
		return &TakenError{ID: owner, Field: fieldID}
	}
	return &TakenError{ID: owner, Field: fieldURL}
}

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
