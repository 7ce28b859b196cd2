package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// node measures a peer that is written for Node, see node/peers.mjs, on a Redis server of its own. What it uses
// includes its start.
func node(what string) func(context.Context, options) (sample, error) {
	return func(ctx context.Context, o options) (sample, error) {
		store, err := startRedis()
		if err != nil {
			return sample{}, err
		}
		defer store.stop()
		n := o.n
		if what == "limiter" {
			n = decisionsOf(o)
		}
		script := filepath.Join("node", "peers.mjs")
		//nolint:gosec // arguments of our own
		command := exec.CommandContext(ctx, "node", script, what, store.socket, strconv.Itoa(n))
		before := store.cpu(ctx)
		out, err := command.Output()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return sample{}, fmt.Errorf("node %s %s: %w: %s", script, what, err, failed.Stderr)
		}
		if err != nil {
			return sample{}, fmt.Errorf("node %s %s: %w; make install-servers installs node and the packages", script, what, err)
		}
		rate, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		used := usage{
			process: command.ProcessState.UserTime() + command.ProcessState.SystemTime(),
			redis:   store.cpu(ctx) - before,
		}
		return sample{rate: rate, used: used.each(n)}, err
	}
}
