package endpoints

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
)

// Service is what the API does with endpoints.
type Service struct {
	*Store
	// CheckURL refuses URLs that can't be called. Its error follows the name of a field.
	CheckURL func(string) error
}

// Form is what a caller says of an endpoint. What is nil stays as it is, or gets its default.
type Form struct {
	ID          *string
	URL         *string
	Secret      *string
	Signing     *string
	Headers     *map[string]string
	Description *string
}

// Create registers an endpoint. A [notification.FieldError] says what is wrong with it.
func (s Service) Create(ctx context.Context, f Form) (*Endpoint, error) {
	made, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	e := &Endpoint{ID: "ep_" + strings.ReplaceAll(made.String(), "-", "")}
	if f.ID != nil {
		e.ID = *f.ID
	}
	if err := notification.CheckID(e.ID); err != nil {
		return nil, err
	}
	if f.URL == nil {
		return nil, fault("url", "is required: the URL to call")
	}
	secret, keyErr := f.key(signing.HMAC)
	if err := errors.Join(s.fill(e, f), keyErr); err != nil {
		return nil, err
	}
	e.Secret = secret
	return e, s.Add(ctx, e)
}

// fill puts what the caller says into an endpoint, but for its secret.
func (s Service) fill(e *Endpoint, f Form) error {
	var faults []error
	if f.URL != nil {
		if err := s.CheckURL(*f.URL); err != nil {
			faults = append(faults, fault("url", "%v", err))
		}
		e.URL = *f.URL
	}
	if f.Description != nil {
		faults = append(faults, checkDescription(*f.Description))
		e.Description = *f.Description
	}
	if f.Headers != nil {
		headers, err := canonical(*f.Headers)
		faults = append(faults, err)
		e.Headers = headers
	}
	return errors.Join(faults...)
}

// key is the secret that the caller gives, or a new one.
func (f Form) key(scheme signing.Scheme) (secret.Secret, error) {
	if f.Signing != nil {
		scheme = signing.Scheme(*f.Signing)
	}
	if scheme != signing.HMAC && scheme != signing.Ed25519 {
		return secret.Secret{}, fault("signing", "is %s; it must be hmac or ed25519", nearest.Quote(string(scheme)))
	}
	if f.Secret == nil {
		return signing.Generate(scheme), nil
	}
	key, err := signing.Parse(*f.Secret)
	switch {
	case err != nil:
		return secret.Secret{}, fault("secret", "%v", err)
	case f.Signing != nil && key.Scheme() != scheme:
		return secret.Secret{}, fault("signing", "is %s, but the secret is one for %s", scheme, key.Scheme())
	}
	return key.Secret(), nil
}

// Update changes what the caller names. An endpoint that moves to another URL begins anew: what was seen of the old one
// says nothing of it.
func (s Service) Update(ctx context.Context, id string, f Form) (*Endpoint, error) {
	return s.Change(ctx, id, func(e *Endpoint, now time.Time) ([]events.Event, error) {
		before := Normal(e.URL)
		if err := s.fill(e, f); err != nil {
			return nil, err
		}
		e.UpdatedAt = now
		if Normal(e.URL) == before {
			return nil, nil
		}
		return e.enable(now, "it has a new URL"), nil
	})
}

// Rotate replaces the secret by the one that the caller gives, or a new one. The old one signs beside it for
// [OldSigns].
func (s Service) Rotate(ctx context.Context, id string, f Form) (*Endpoint, error) {
	return s.Change(ctx, id, func(e *Endpoint, now time.Time) ([]events.Event, error) {
		current, err := signing.Parse(e.Secret.Reveal())
		if err != nil {
			return nil, err
		}
		next, err := f.key(current.Scheme())
		if err != nil {
			return nil, err
		}
		return nil, e.rotate(next, now)
	})
}

// Enable has an endpoint be called again that was disabled.
func (s Service) Enable(ctx context.Context, id string) (*Endpoint, error) {
	return s.Change(ctx, id, func(e *Endpoint, now time.Time) ([]events.Event, error) {
		if !e.Disabled() {
			return nil, record.ErrUnchanged
		}
		return e.enable(now, "somebody enabled it"), nil
	})
}

// enable forgets the endpoint's health, and returns the event if it was disabled.
func (e *Endpoint) enable(now time.Time, why string) (happened []events.Event) {
	if e.Disabled() {
		happened = append(happened, events.New(events.EndpointEnabled, e.ID, why))
	}
	e.startAgain(now)
	return happened
}
