package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/pacer-notify/pacer/internal/demo"
	"github.com/pacer-notify/pacer/internal/settings"
)

type demoCommand struct {
	settings.Server
	Open bool `name:"open" env:"-" default:"true" negatable:"" help:"Open the dashboard in a browser, if there is a terminal and a display. Default: ${default}."`
}

// Run serves on the embedded default and plays sample traffic until SIGTERM or SIGINT.
func (c *demoCommand) Run(ctx context.Context, to streams) error {
	c.Stores = settings.Stores{} // the demo keeps its hands off any real store
	c.Roles = []string{string(settings.RoleAPI), string(settings.RoleWorker), string(settings.RoleOps)}
	var nights []demo.Night
	var policy string
	if c.Policy == "" {
		nights = demo.Nights(time.Now())
		path, remove, err := demo.WritePolicy(nights)
		if err != nil {
			return err
		}
		defer func() { _ = remove() }() // a temporary one
		c.Policy, policy = path, path
	}
	resolved, err := c.Resolve()
	if err != nil {
		return err
	}
	resolved.AnyPort = true
	ctx, stop := untilSignal(ctx)
	defer stop()
	process, err := hooks().New(ctx, resolved, ownProcess(to.err, resolved))
	if err != nil {
		return err
	}
	if err := process.Start(ctx); err != nil {
		return err
	}
	var token string
	if len(resolved.APITokens) > 0 {
		token = resolved.APITokens[0]
	}
	player, err := demo.New(ctx, demo.Config{
		API: "http://" + process.Addr(), Ops: "http://" + process.OpsAddr(), Token: token, Out: to.out,
		Nights: nights, Policy: policy,
	})
	if err == nil {
		if c.Open && hasBrowser(to.out) {
			openBrowser(ctx, "http://"+process.OpsAddr())
		}
		err = player.Run(ctx)
	}
	return errors.Join(err, process.Stop(ctx))
}

// hasBrowser reports whether somebody watches who could see a browser: not in a pipe, not in continuous integration,
// not over SSH, and on Linux not without a display.
func hasBrowser(out io.Writer) bool {
	if !isTerminal(out) || os.Getenv("CI") != "" || os.Getenv("SSH_CONNECTION") != "" {
		return false
	}
	return runtime.GOOS == "darwin" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// openBrowser shows a page. Whether that works does not matter: the demo has named the address.
func openBrowser(ctx context.Context, url string) {
	ctx = context.WithoutCancel(ctx)                     // it may outlive the demo
	browser := exec.CommandContext(ctx, "xdg-open", url) //nolint:gosec // the address is this process's own
	if runtime.GOOS == "darwin" {
		browser = exec.CommandContext(ctx, "open", url) //nolint:gosec // see above
	}
	if browser.Start() == nil {
		go func() { _ = browser.Wait() }() // see above
	}
}
