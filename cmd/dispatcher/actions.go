package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"strings"

	"golang.org/x/term"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/settings"
)

// operator is what actions need besides: who acts, and whether he is sure.
type operator struct {
	opsClient
	Yes bool `name:"yes" short:"y" env:"-" help:"Do not ask for confirmation."`
}

// errNotSure is what an action ends with that was not confirmed.
var errNotSure = errors.New("not done: confirm with y, or give --yes")

// act takes an action once it is confirmed, and shows what was done.
func (o *operator) act(ctx context.Context, to streams, question string, action ops.Action) error {
	if !o.Yes && !sure(to, question) {
		return errNotSure
	}
	body, err := json.Marshal(action)
	if err != nil {
		return fmt.Errorf("encode the action: %w", err)
	}
	status, reply, err := o.post(ctx, "/actions", body)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refused("not done", status, reply)
	}
	var done ops.Done
	if err := json.Unmarshal(reply, &done); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	_, err = fmt.Fprintln(to.out, done.Done)
	return err
}

// post sends JSON in the operator's name.
func (o *operator) post(ctx context.Context, path string, body []byte) (status int, reply []byte, err error) {
	header := http.Header{"Content-Type": {"application/json"}, "Pacer-Operator": {whoami()}}
	return o.ask(ctx, http.MethodPost, path, header, bytes.NewReader(body))
}

// sure asks on the terminal; without one nobody is.
func sure(to streams, question string) bool {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return false
	}
	_, _ = fmt.Fprintf(to.err, "%s [y/N] ", question)     // what is typed counts
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // nothing is no
	return strings.EqualFold(strings.TrimSpace(line), "y") || strings.EqualFold(strings.TrimSpace(line), "yes")
}

// whoami is the name for the audit log.
func whoami() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "command line"
}

// subject is what can be paused.
type subject struct {
	Kind string `arg:"" enum:"channel,category,partition" help:"channel, category or partition."`
	Name string `arg:"" help:"Its name, or the partition's number."`
}

type pauseCommand struct {
	operator
	subject
	Why string `name:"why" env:"-" placeholder:"TEXT" help:"The reason, for the audit log and for whoever finds it paused."`
}

// Run pauses a channel, category or partition.
func (c *pauseCommand) Run(ctx context.Context, to streams) error {
	question := fmt.Sprintf("Pause %s %s? Its notifications wait until it is resumed.", c.Kind, c.Name)
	return c.act(ctx, to, question, ops.Action{Action: "pause", Kind: control.Kind(c.Kind), Name: c.Name, Why: c.Why})
}

type resumeCommand struct {
	operator
	subject
}

// Run resumes it.
func (c *resumeCommand) Run(ctx context.Context, to streams) error {
	return c.act(ctx, to, fmt.Sprintf("Resume %s %s?", c.Kind, c.Name),
		ops.Action{Action: "resume", Kind: control.Kind(c.Kind), Name: c.Name})
}

// some are one notification, by its id, or all that a filter selects.
type some struct {
	ID string `arg:"" optional:"" help:"Id of one notification."`
	filter
	Why    string `name:"why" env:"-" placeholder:"TEXT" help:"The reason, for the audit log; only with a filter."`
	DryRun bool   `name:"dry-run" env:"-" help:"Change nothing; only count what the filter selects."`
}

// errWhich is what an action ends with that says neither which notification nor which ones.
var errWhich = &settings.UsageError{
	Setting: "ID or a filter", Message: "is required: give one id, or at least one of --user, --status, --category, " +
		"--channel, --reason, --host, --since, --until and --text",
}

// Validate refuses a command that names one notification and a filter, or neither.
func (s *some) Validate() error {
	switch filtered := len(s.query()) > 0; {
	case s.ID == "" && !filtered:
		return errWhich
	case s.ID != "" && (filtered || s.DryRun):
		return &settings.UsageError{Setting: "ID", Message: "is a single notification, which can't be combined with a filter or --dry-run"}
	}
	return nil
}

type cancelCommand struct {
	operator
	some
}

// Run cancels notifications that wait.
func (c *cancelCommand) Run(ctx context.Context, to streams) error {
	if c.ID == "" {
		return c.changeMany(ctx, to, &c.some, desk.BulkOrder{Action: desk.ActionCancel})
	}
	return c.act(ctx, to, fmt.Sprintf("Cancel notification %s? It will never be delivered.", c.ID),
		ops.Action{Action: desk.ActionCancel, ID: c.ID})
}

// one is a notification, by its id.
type one struct {
	ID string `arg:"" help:"Id of the notification."`
}

type changeCommand struct {
	operator
	one
	Priority  string `name:"priority" env:"-" predictor:"priorities" help:"critical, high, normal or low."`
	SendAt    string `name:"send-at" env:"-" placeholder:"TIME" help:"Do not send before this time (RFC 3339); none: as soon as limits allow it."`
	ExpiresAt string `name:"expires-at" env:"-" placeholder:"TIME" help:"Do not send after this time (RFC 3339); none: it does not expire."`
}

// Run changes a notification that waits.
func (c *changeCommand) Run(ctx context.Context, to streams) error {
	change := map[string]any{}
	for field, value := range map[string]string{
		"priority": c.Priority, "send_at": c.SendAt, "expires_at": c.ExpiresAt,
	} {
		switch {
		case value == "none" && field != "priority":
			change[field] = nil
		case value != "":
			change[field] = value
		}
	}
	if len(change) == 0 {
		return &settings.UsageError{Setting: "--priority, --send-at or --expires-at", Message: "is required"}
	}
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode the change: %w", err)
	}
	return c.act(ctx, to, fmt.Sprintf("Change notification %s to %s?", c.ID, body),
		ops.Action{Action: "change", ID: c.ID, Change: body})
}

type releaseCommand struct {
	operator
	one
}

// Run releases a notification that waits.
func (c *releaseCommand) Run(ctx context.Context, to streams) error {
	question := fmt.Sprintf("Release notification %s? It goes at once, whatever limits and quiet hours say.", c.ID)
	return c.act(ctx, to, question, ops.Action{Action: "release", ID: c.ID})
}

type retryCommand struct {
	operator
	some
}

// Run sends notifications again that have failed or expired, as new ones.
func (c *retryCommand) Run(ctx context.Context, to streams) error {
	if c.ID == "" {
		return c.changeMany(ctx, to, &c.some, desk.BulkOrder{Action: desk.ActionRetry})
	}
	return c.act(ctx, to, fmt.Sprintf("Send notification %s again, as a new one?", c.ID),
		ops.Action{Action: desk.ActionRetry, ID: c.ID})
}

type moveCommand struct {
	operator
	some
	ToChannel string `name:"to-channel" env:"-" required:"" placeholder:"NAME" help:"The channel to move to; notifications go to the user's devices there."`
}

// Run has notifications go on over another channel.
func (c *moveCommand) Run(ctx context.Context, to streams) error {
	if c.ID == "" {
		return c.changeMany(ctx, to, &c.some, desk.BulkOrder{Action: desk.ActionMove, Channel: c.ToChannel})
	}
	return c.act(ctx, to, fmt.Sprintf("Move notification %s to the channel %s?", c.ID, c.ToChannel),
		ops.Action{Action: desk.ActionMove, ID: c.ID, Channel: c.ToChannel})
}
