package gate

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// fewSettings is how long a host is not called that has refused the credentials of a few targets alone. They may be
// another app's, so others are tried soon.
const fewSettings = 5 * time.Second

// weigh finds out what a refusal means that may concern the target or the credential, by what the host accepted and
// refused lately. While nobody knows, the notification is tried again and no device is deactivated.
func (g *Gate) weigh(h *host, target string, failure *push.Error) *push.Error {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if failure == nil {
		h.evidence.accept(now)
		return nil
	}
	if failure.Whom() != push.ConcernsCredential {
		return failure
	}
	weighed := *failure
	switch h.evidence.refuse(now, target, failure.Class) {
	case theSettings:
		weighed.Class, weighed.Concerns = push.CredentialsRefused, push.ConcernsEverybody
		if h.evidence.targets() < fewTargets {
			weighed.Concerns = push.ConcernsCredential
		}
		return &weighed
	case theTarget:
		weighed.Concerns = push.ConcernsTarget
		if failure.Class != push.CredentialsRefused {
			return &weighed
		}
	case unsure:
		weighed.Concerns = push.ConcernsTarget
		if h.evidence.targets() >= manyTargets && h.tell(now, g.cfg.Pause) {
			g.cfg.Log.Warn("the provider says that most devices belong to another app, so none is deactivated; check the channel's settings",
				"channel", g.cfg.Channel, "host", h.name, "code", failure.Code)
		}
	}
	weighed.Class, weighed.RetryAfter = push.Transient, max(failure.RetryAfter, g.cfg.Pause)
	return &weighed
}

// heed applies what a response means for the calls that follow, by whom it concerns.
func (g *Gate) heed(h *host, began time.Time, o outcome, failure *push.Error) {
	now := time.Now()
	var length time.Duration
	switch {
	case failure == nil || failure.Class != push.CredentialsRefused && failure.Whom() != push.ConcernsEverybody:
	case failure.Class == push.Throttled:
		length = cmp.Or(failure.RetryAfter, g.cfg.Pause)
		g.log(failure).Warn("the provider asks the whole channel to slow down", "channel", g.cfg.Channel, "host", h.name,
			"code", failure.Code, "pause", length)
	case failure.Whom() == push.ConcernsCredential:
		length = max(fewSettings, failure.RetryAfter)
	default:
		length = max(g.cfg.Pause, failure.RetryAfter)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case length > 0:
		h.pause.begin(now, length, failure.Class == push.Throttled)
		if failure.Class == push.CredentialsRefused && h.tell(now, g.cfg.Pause) {
			g.log(failure).Error("the provider refuses this deployment's credentials; the channel waits until they are corrected",
				"channel", g.cfg.Channel, "host", h.name, "code", failure.Code, "pause", length)
		}
	case o != failed && h.pause.end(began, failure == nil):
		g.cfg.Log.Info("the provider accepts notifications again", "channel", g.cfg.Channel, "host", h.name)
	}
}

// log adds to what is logged what the failure says beyond its code, such as which setting is wrong.
func (g *Gate) log(failure *push.Error) *slog.Logger {
	if failure.Err == nil {
		return g.cfg.Log
	}
	return g.cfg.Log.With("error", failure.Err)
}
