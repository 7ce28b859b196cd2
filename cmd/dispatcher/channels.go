package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/settings"
)

type channelsCommand struct{ opsClient }

// Run lists the channels of a running process with their health.
func (c *channelsCommand) Run(ctx context.Context, to streams) error {
	status, body, err := c.get(ctx, "/channels")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refused("list the channels", status, body)
	}
	var channels []ops.Channel
	if err := json.Unmarshal(body, &channels); err != nil {
		return fmt.Errorf("read the list of channels: %w", err)
	}
	w := tabwriter.NewWriter(to.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CHANNEL\tHOST\tHEALTH\tIN FLIGHT\tLATEST OUTCOME") // Flush tells
	for _, of := range channels {
		showChannel(w, of)
	}
	return w.Flush()
}

// showChannel writes one channel; Flush of the writer reports whether it could be written.
func showChannel(w *tabwriter.Writer, c ops.Channel) {
	name := c.Channel
	if c.Paused != nil {
		_, _ = fmt.Fprintf(w, "%s\t-\t%s\t\t\n", name, pausedBy(c.Paused))
	} else if len(c.Hosts) == 0 {
		_, _ = fmt.Fprintf(w, "%s\t-\tconfigured, not used yet\t\t\n", name)
	}
	for _, host := range c.Hosts {
		on := host.Host
		if on == "" {
			on = "-"
		}
		latest := ""
		if host.Outcome != "" {
			latest = clock(host.OutcomeAt) + "  " + host.Outcome
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", name, on, host.Health(time.Now(), clock), host.InFlight, latest)
	}
}

// pausedBy says who paused something, since when and why.
func pausedBy(p *control.Pause) string {
	text := "paused by " + p.By + " since " + clock(p.At)
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text
}

type sendTestCommand struct {
	settings.Server
	Channel string `name:"channel" env:"-" predictor:"channels" required:"" placeholder:"CHANNEL" help:"One of the configured channels."`
	To      string `name:"to" env:"-" required:"" placeholder:"TARGET" help:"A URL, device token, subscription or address."`
	Title   string `name:"title" env:"-" default:"pacer works" help:"Title. Default: ${default}."`
	Body    string `name:"body" env:"-" default:"A test notification." help:"Body. Default: ${default}"`
}

// checkChannel refuses a name that no channel has, configured or not.
func (c *sendTestCommand) checkChannel(all settings.Channels) error {
	var names []string
	for _, of := range all.All() {
		names = append(names, string(of.Name))
	}
	if slices.Contains(names, c.Channel) {
		return nil
	}
	return &settings.UsageError{Setting: "--channel", Message: fmt.Sprintf("must be one of %s, is %q%s",
		nearest.List(names), c.Channel, nearest.Hint(c.Channel, names))}
}

// errNotDelivered makes the exit code 1: the provider did not take the test.
var errNotDelivered = errors.New("the test was not delivered")

// Run sends one notification with the settings' credentials, past queue and throttle, and shows the response.
func (c *sendTestCommand) Run(ctx context.Context, to streams) (err error) {
	resolved, err := c.Resolve()
	if err != nil {
		return err
	}
	if err := c.checkChannel(resolved.Channels); err != nil {
		return err
	}
	opened, err := channel.Open(resolved.Channels.All(), deployment.Signed(channel.Process{
		Log: newLogger(to.err, resolved), Targets: httpsend.GuardedConfig{Allow: deployment.TargetsAllow(resolved)},
	}, resolved, func() *policy.Policy { return &policy.Policy{} }))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	response, err := opened.SendTest(ctx, channel.Test{Channel: c.Channel, To: c.To, Title: c.Title, Body: c.Body})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(to.out, channel.Describe(response)); err != nil {
		return err
	}
	if response != nil {
		return errNotDelivered
	}
	return nil
}
