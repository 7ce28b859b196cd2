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
	"github.com/pacer-notify/pacer/internal/ops"
)

// operator is what actions need besides: who acts, and whether he is sure.
type operator struct {
	opsClient
	Yes bool `name:"yes" short:"y" env:"-" help:"Do not ask once more."`
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
	header := http.Header{"Content-Type": {"application/json"}, "Pacer-Operator": {whoami()}}
	status, reply, err := o.ask(ctx, http.MethodPost, "/actions", header, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("not done: %s", strings.TrimSpace(string(reply)))
	}
	var done ops.Done
	if err := json.Unmarshal(reply, &done); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	_, err = fmt.Fprintln(to.out, done.Done)
	return err
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
	Why string `name:"why" env:"-" placeholder:"TEXT" help:"For the audit log, and for whoever finds it paused."`
}

// Run pauses a channel, category or partition.
func (c *pauseCommand) Run(ctx context.Context, to streams) error {
	question := fmt.Sprintf("Pause %s %s? What belongs to it waits until it is resumed.", c.Kind, c.Name)
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

type cancelCommand struct {
	operator
	ID string `arg:"" help:"Id of the notification."`
}

// Run cancels a notification that waits.
func (c *cancelCommand) Run(ctx context.Context, to streams) error {
	return c.act(ctx, to, fmt.Sprintf("Cancel notification %s? It will never be delivered.", c.ID),
		ops.Action{Action: "cancel", ID: c.ID})
}

type retryCommand struct {
	operator
	ID string `arg:"" help:"Id of the notification."`
}

// Run sends a notification again that has failed, as a new one.
func (c *retryCommand) Run(ctx context.Context, to streams) error {
	return c.act(ctx, to, fmt.Sprintf("Send notification %s again, as a new one?", c.ID),
		ops.Action{Action: "retry", ID: c.ID})
}
