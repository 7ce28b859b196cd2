package settings

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
)

// Webhooks are the settings of registered webhook endpoints, and of the events that tell of them.
type Webhooks struct {
	// WebhookDisableAfter is how long a registered endpoint may do nothing but fail before it is disabled; 0 means for
	// ever. Defaults to 5 days.
	WebhookDisableAfter time.Duration `name:"webhook-disable-after" default:"120h" placeholder:"DURATION" help:"How long every call to a registered webhook endpoint may fail before pacer disables the endpoint; 0: it never does. Default: 5 days."`
	// EventsEndpoints are URLs that get the events of this deployment. Defaults to none.
	EventsEndpoints []string `name:"events-endpoints" placeholder:"URL" json:"-" help:"URLs that get the events of this deployment, such as notification.failed, as Standard Webhooks. GET /v1/events lists the same events. Without any, only events of webhook endpoints are kept. Default: none."`
	// EventsTypes are the types of the events that are written, besides those of endpoints. Defaults to all but
	// notification.deferred and notification.digested.
	EventsTypes []string `name:"events-types" placeholder:"TYPE" json:"-" help:"Types of events to keep and send, besides those of webhook endpoints, which always are; none: no others. All processes with --events-endpoints must set the same. Default: all but notification.deferred and notification.digested."`
	// EventsSecret signs them. Defaults to --webhook-secret.
	EventsSecret string `name:"events-secret" placeholder:"SECRET" json:"-" help:"Standard Webhooks secret (whsec_... or whsk_...) that signs events, or file:PATH. While you replace it, give both: NEW,OLD. Default: --webhook-secret."`
}

// maxReceivers is how many URLs may get the events.
const maxReceivers = 10

// Events say where events go.
type Events struct {
	// Receivers are the URLs, Types what they get besides the events of endpoints, Keys what signs.
	Receivers []string
	Types     []string
	Keys      *signing.Ring
}

// resolve checks the settings. keys reads what signs the events.
func (w Webhooks) resolve(keys func() (signing.Keys, error)) (Events, error) {
	var faults []error
	if w.WebhookDisableAfter < 0 {
		faults = append(faults, refuse("webhook-disable-after", "must not be negative, is %s", w.WebhookDisableAfter))
	}
	resolved := Events{}
	types, fault := w.eventTypes()
	if fault != nil {
		faults = append(faults, fault)
	} else if len(w.EventsEndpoints) > 0 {
		resolved.Types = types
	}
	for i, text := range w.EventsEndpoints {
		text = strings.TrimSpace(text)
		u, err := readURL(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			faults = append(faults, refuse("events-endpoints",
				"must be http or https URLs without a user; number %d is not", i+1))
			continue
		}
		resolved.Receivers = append(resolved.Receivers, text)
	}
	if len(resolved.Receivers) > maxReceivers {
		faults = append(faults, refuse("events-endpoints", "must be at most %d, not %d", maxReceivers,
			len(resolved.Receivers)))
	}
	if len(resolved.Receivers) == 0 && w.EventsSecret == "" {
		return resolved, errors.Join(faults...) // the channel checks its own secret
	}
	read, err := keys()
	resolved.Keys = signing.NewRing(read)
	return resolved, errors.Join(append(faults, err)...)
}

// eventTypes checks the types of events.
func (w Webhooks) eventTypes() ([]string, error) {
	wanted := []string{}
	for _, text := range w.EventsTypes {
		name := strings.TrimSpace(text)
		switch {
		case name == "none" && len(w.EventsTypes) == 1:
		case !slices.Contains(events.Types, name):
			return nil, refuse("events-types", "must be some of %s, or none alone; %q is not%s",
				strings.Join(events.Types, ", "), name, nearest.Hint(name, events.Types))
		case !slices.Contains(wanted, name):
			wanted = append(wanted, name)
		}
	}
	if len(w.EventsTypes) == 0 {
		wanted = events.DefaultTypes()
	}
	return wanted, nil
}

// eventsSecret is the flag of what signs the events, and its value as it was set.
func (s *Server) eventsSecret() (flag, value string) {
	if s.EventsSecret != "" {
		return "events-secret", s.EventsSecret
	}
	return "webhook-secret", s.Channels.Webhook.Secret
}

// readEventsSecret reads the keys that sign the events, from the settings or from the file that they name.
func (s *Server) readEventsSecret() (signing.Keys, error) {
	flag, text := s.eventsSecret()
	if err := readCredential(flag, &text); err != nil {
		return nil, err
	}
	var secrets []secret.Secret
	for _, one := range splitEntries(text) {
		secrets = append(secrets, secret.New(one))
	}
	keys, err := signing.ParseAll(secrets)
	if err != nil {
		return nil, refuse(flag, "%s", strings.TrimPrefix(err.Error(), "the secret "))
	}
	return keys, nil
}
