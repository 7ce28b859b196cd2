// Package channel says what a channel is: one value with everything that pacer knows of it outside the channel's own
// package. [github.com/pacer-notify/pacer/internal/settings.Channels] lists all channels.
package channel

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/content"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Descriptor describes a channel. The Settings of the channel's package make it, so it also holds what differs between
// deployments. The zero Settings make a Descriptor with what holds for every deployment.
type Descriptor struct {
	// Name is the channel's name in the API, in flags and in metrics: its kind, or the whole name of a sender that has
	// one, such as fcm:shop. The zero Settings of a kind make a Descriptor with the kind.
	Name notification.Channel
	// Configured is true when the settings hold what the channel needs. Other channels are not opened.
	Configured bool
	// MaxContent is how long title, body and data together may be, in bytes. Defaults to
	// [notification.MaxContentBytes].
	MaxContent int
	// OwnFormat describes the JSON object in the provider's format that a notification may have under the channel's
	// name. It is shown in the API's document. Empty means that there is no such format.
	OwnFormat string
	// OwnFields are the members of that object that are checked. They are shown in docs/channels.md.
	OwnFields content.Fields
	// TakesHTML is true when a template's HTML part goes into the member html of that object.
	TakesHTML bool
	// Local is true when a delivery does not leave the process. Then notifications need no target, users register no
	// devices, and there is no need for budgets and breakers.
	Local bool
	// Host returns the host that serves a target, as it stands in a URL. Each host has a breaker of its own. Nil means
	// that one provider serves all targets.
	Host func(to string) string
	// PerTarget is how often the provider accepts notifications for one target. Nil means no limit.
	PerTarget []throttle.Rule
	// Limits are how often all processes together may call the provider, as in the settings: 600000/1m.
	Limits []string
	// Delivery is what the channel's field recommends for retries, time-out and concurrency, where a policy file says
	// nothing of them. Defaults to [notification.DefaultDelivery].
	Delivery notification.DeliverySettings
	// Credential names what those limits belong to. Deployments with the same credential share a budget. Only its hash
	// leaves the process.
	Credential string
	// Public is what a checker in another process has to know of these settings. Producers read it from Redis, so it
	// holds no secret.
	Public string
	// PublicKey is what a page needs to subscribe a browser. Empty means that there is nothing to subscribe to.
	PublicKey string
	// Responses has what each response of the provider means. It is shown in docs/responses.md. A channel whose
	// provider does not respond has none.
	Responses push.Table
	// NewChecker makes what checks notifications before they are accepted.
	NewChecker func(Surroundings) push.Checker
	// Open makes the sender. A sender that keeps connections has a Close.
	Open func(Process) (push.Sender, error)
	// Files are those that the credentials stand in, and Renew describes the channel with what they hold now. Without
	// files there is nothing to renew.
	Files secret.Files
	Renew func() (Descriptor, error)
}

// MostContent is MaxContent, or its default.
func (d Descriptor) MostContent() int { return cmp.Or(d.MaxContent, notification.MaxContentBytes) }

// Surroundings are what a checker knows of the deployment.
type Surroundings struct {
	// Public is the descriptor's Public, as a dispatcher published it.
	Public string
	// CheckURL reports whether a target that comes from input may be called.
	CheckURL func(string) error
}

// Process is what a sender may use of the process that opens it.
type Process struct {
	Log *slog.Logger
	// Targets says which hosts may be called when targets come from input.
	Targets httpsend.GuardedConfig
	// Unsubscribe gives the link by which a user opts out of a category; empty where there is none. Nil is none.
	Unsubscribe func(userID, category string) string
	// ReturnToken signs where an e-mail comes back to: its notification, and the address that it goes to. Nil means
	// that there is no key.
	ReturnToken func(notificationID, address string) string
	// Registered returns what signs calls to a webhook's URL, and the headers to send with them; false for a URL that
	// is not registered. Nil means that none is.
	Registered func(url string) (signing.Keys, http.Header, bool)
}

// SettingError is a setting that can't be right. It must not show a credential.
type SettingError struct {
	// Setting is the flag's name without the channel's prefix.
	Setting string
	// Message says what the setting must be: "must be an http or https URL".
	Message string
}

// Error reads "server: must be an http or https URL".
func (e *SettingError) Error() string { return e.Setting + ": " + e.Message }

// CheckProvider checks the settings of a provider that is called over HTTP/2, so only by https, and maybe through a
// proxy.
func CheckProvider(endpoint, proxy string) error {
	var faults []error
	if err := httpsend.CheckEndpoint(endpoint, "https"); err != nil {
		faults = append(faults, &SettingError{Setting: "endpoint", Message: err.Error()})
	}
	if err := httpsend.CheckProxy(proxy); err != nil {
		faults = append(faults, &SettingError{Setting: "proxy", Message: err.Error()})
	}
	return errors.Join(faults...)
}

// NoOwnFormat refuses content in a provider's format where the channel has none. It is what such a channel's
// CheckContent returns.
func NoOwnFormat(n *notification.Notification) error {
	if len(n.Override) > 0 {
		return errors.New("has no override: title, body and data are all that is sent")
	}
	return nil
}
