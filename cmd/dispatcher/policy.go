package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/plural"
)

type policyShowCommand struct {
	opsClient
	JSON bool `name:"json" env:"-" help:"Print JSON, for programs."`
}

// Run prints the policy in force, to the byte: what is saved of it has the same version and can be put in force again.
// What the processes have in force goes to the other stream, in comments, so that both together are YAML too.
func (c *policyShowCommand) Run(ctx context.Context, to streams) error {
	status, body, err := c.get(ctx, "/policy")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refused("read the policy in force", status, body)
	}
	if c.JSON {
		_, err = to.out.Write(body)
		return err
	}
	var in ops.PolicyInForce
	if err := json.Unmarshal(body, &in); err != nil {
		return fmt.Errorf("read the policy in force: %w", err)
	}
	var who strings.Builder
	describePolicy(&who, "", &in.Policy)
	for _, p := range in.Processes {
		if !holds(p, in.Version) {
			describePolicy(&who, p.ID+": ", p.Policy)
		}
	}
	if all := len(in.Processes); all > 0 {
		fmt.Fprintf(&who, "# in force on %d of %s\n", holders(&in, in.Version), plural.Of(all, "process", "processes"))
	} else {
		fmt.Fprintf(&who, "# %s\n", nobodyListed)
	}
	_, _ = io.WriteString(to.err, who.String()) // the text is what counts
	_, err = io.WriteString(to.out, in.Text)
	return err
}

// nobodyListed says that it is unknown who has which policy. A process is listed soon after it has started.
const nobodyListed = "no process is listed yet, so it is unknown which policy they have; if this stays, check whether " +
	"Redis is full"

// describePolicy writes which policy a process has in force, as a comment of YAML.
func describePolicy(to *strings.Builder, process string, p *ops.Policy) {
	if p == nil {
		fmt.Fprintf(to, "# %sdoes not report its policy\n", process)
		return
	}
	fmt.Fprintf(to, "# %sversion %s, from %s, loaded %s\n", process, p.Version, p.File, clock(p.LoadedAt))
	if p.Refused != "" {
		fmt.Fprintf(to, "# %sthe file is refused since %s:\n#   %s\n", process, clock(p.RefusedAt),
			strings.ReplaceAll(p.Refused, "\n", "\n#   "))
	}
}
