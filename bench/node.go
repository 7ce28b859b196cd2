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

// node measures a peer that is written for Node, see node/peers.mjs, on a Redis server of its own.
func node(what string) func(context.Context, options) (float64, error) {
	return func(ctx context.Context, o options) (float64, error) {
		store, err := startRedis()
		if err != nil {
			return 0, err
		}
		defer store.stop()
		n := o.n
		if what == "limiter" {
			n = decisionsOf(o)
		}
		script := filepath.Join("node", "peers.mjs")
		//nolint:gosec // arguments of our own
		out, err := exec.CommandContext(ctx, "node", script, what, store.socket, strconv.Itoa(n)).Output()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return 0, fmt.Errorf("node %s %s: %w: %s", script, what, err, failed.Stderr)
		}
		if err != nil {
			return 0, fmt.Errorf("node %s %s: %w; make install-servers installs node and the packages", script, what, err)
		}
		return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	}
}
