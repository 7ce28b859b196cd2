package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

type healthcheckCommand struct{ opsClient }

// Run asks whether the local process can take work.
func (c *healthcheckCommand) Run(ctx context.Context, to streams) error {
	status, body, err := c.get(ctx, "/readyz")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return errors.New(strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", "; "))
	}
	_, err = fmt.Fprintln(to.out, "ready")
	return err
}
