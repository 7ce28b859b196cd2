// Package channel says what a channel is: one value that holds everything pacer knows of it outside the channel's own
// package. [github.com/pacer-notify/pacer/internal/settings.Channels] lists the channels that there are.
package channel

import (
	"cmp"
	"errors"
	"log/slog"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Descriptor describes a channel. The Settings of the channel's package make it, so it also holds what differs between
// deployments; the zero Settings give what holds for every deployment.
type Descriptor struct {
	// Name is the channel's name in the API, in flags and in metrics.
	Name notification.Channel
	// Configured is true when the settings hold what the channel needs. Other channels are not opened.
	Configured bool
	// MaxContent is how long title, body and data together may be, in bytes. Defaults to
	// [notification.MaxContentBytes].
	MaxContent int
	// OwnFormat describes, for the API's document, the JSON object in the provider's format that a notification may
	// carry under the channel's name. Empty means that the channel has none.
	OwnFormat string
	// TakesHTML is true when a template's HTML part goes into the member html of that object.
	TakesHTML bool
	// Local is true when a delivery does not leave the process: notifications need no target, users register no
	// devices, and nothing has to be protected by budgets and breakers.
	Local bool
	// Host gives the host that serves a target, in a URL's form; each has a breaker of its own. Nil means that one
	// provider serves all targets.
	Host func(to string) string
	// PerTarget is how often the provider takes something for one target. Nil means no limit.
	PerTarget []throttle.Rule
	// Limits are how often the provider may be called, over all processes, as they were set: 600000/1m.
	Limits []string
	// Credential names what those limits belong to: two deployments with the same credential share a budget. Only its
	// hash leaves the process.
	Credential string
	// Public is what a checker elsewhere has to know of these settings. Producers read it in Redis, so it holds no
	// secret.
	Public string
	// NewChecker makes what looks at notifications before they are accepted.
	NewChecker func(Surroundings) push.Checker
	// Open makes the sender. A sender that holds connections has a Close.
	Open func(Process) (push.Sender, error)
}

// MostContent is MaxContent with its default.
func (d Descriptor) MostContent() int { return cmp.Or(d.MaxContent, notification.MaxContentBytes) }

// Surroundings are what a checker knows of the deployment.
type Surroundings struct {
	// Public is the descriptor's, as a dispatcher published it.
	Public string
	// CheckURL tells whether a target that comes from input may be called.
	CheckURL func(string) error
}

// Process is what a sender may use of the process that opens it.
type Process struct {
	Log *slog.Logger
	// Targets says which hosts may be called where targets come from input.
	Targets httpsend.GuardedConfig
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

// NoOwnFormat refuses content in a provider's format where the channel has none. It is what such a channel's
// CheckContent returns.
func NoOwnFormat(n *notification.Notification) error {
	if len(n.Override) > 0 {
		return errors.New("has no override: title, body and data are all that is sent")
	}
	return nil
}
