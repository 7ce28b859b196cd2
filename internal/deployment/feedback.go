package deployment

import (
	"github.com/pacer-notify/pacer/internal/feedback"
	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/settings"
)

// Inbox takes what comes back about the deployment's e-mails; nil without a key to recognize it by.
func (d *Deployment) Inbox() httpapi.Inbox {
	if d.cfg.Settings.Keys.None() {
		return nil
	}
	return feedback.NewInbox(feedback.Config{
		Keys: d.cfg.Settings.Keys, Channel: email.Name, Gone: email.Gone, Address: email.Address,
		Store: d.Store, Users: d.Store,
	})
}

// Signed has a channel's sender sign what e-mails carry. A category that bypasses the limits has no link: whoever needs
// to be told at once is told. current gives the policy in force.
func Signed(process channel.Process, cfg *settings.Resolved, current func() *policy.Policy) channel.Process {
	if cfg.Keys.None() {
		return process
	}
	links := feedback.Links{Keys: cfg.Keys, Base: cfg.PublicURL, Required: func(category string) bool {
		return current().Categories[category].Bypass
	}}
	process.Unsubscribe, process.ReturnToken = links.Of, cfg.Keys.AddressToken
	return process
}
