package main

import (
	"context"
	"errors"
	"net"

	"github.com/pacer-notify/pacer/internal/demo"
	"github.com/pacer-notify/pacer/internal/settings"
)

type demoCommand struct{ settings.Server }

// Run serves on the embedded default and plays sample traffic until SIGTERM or SIGINT.
func (c *demoCommand) Run(ctx context.Context, to streams) error {
	c.Stores = settings.Stores{} // the demo keeps its hands off any real store
	c.Roles = []string{string(settings.RoleAPI), string(settings.RoleWorker), string(settings.RoleOps)}
	c.Listen, c.OpsListen = freeAddress(ctx, c.Listen), freeAddress(ctx, c.OpsListen)
	resolved, err := c.Resolve()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	process, err := hooks().New(ctx, resolved, newLogger(to.err, resolved))
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
	})
	if err == nil {
		err = player.Run(ctx)
	}
	return errors.Join(err, process.Stop(ctx))
}

// freeAddress gives the address back if nobody listens there, or else one with a free port, so that the demo runs
// beside whatever uses the usual ports.
func freeAddress(ctx context.Context, address string) string {
	probe, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "127.0.0.1:0"
	}
	_ = probe.Close() // only a look
	return address
}
