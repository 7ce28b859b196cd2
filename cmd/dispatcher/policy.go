package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/pacer-notify/pacer/internal/ops"
)

type policyShowCommand struct {
	opsClient
	JSON bool `name:"json" env:"-" help:"Print JSON, for programs."`
}

// Run prints the policy in force as YAML, with what the processes have in force in comments before it.
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
	var text strings.Builder
	describePolicy(&text, "", &in.Policy)
	same := 0
	for _, p := range in.Processes {
		if p.Policy != nil && p.Policy.Version == in.Version && p.Policy.Refused == "" {
			same++
			continue
		}
		describePolicy(&text, p.ID+": ", p.Policy)
	}
	if all := len(in.Processes); all > 0 {
		fmt.Fprintf(&text, "# in force on %d of %s\n", same, count(all, "process", "processes"))
	} else {
		fmt.Fprintf(&text, "# %s\n", nobodyListed)
	}
	text.WriteString(in.Text)
	_, err = to.out.Write([]byte(text.String()))
	return err
}

// nobodyListed says that it is unknown who has which policy. A process is listed soon after it has started.
const nobodyListed = "no process is listed yet, so it is unknown which policy they have; if this stays, check whether " +
	"Redis is full"

// describePolicy writes which policy a process has in force, as a comment of YAML.
func describePolicy(to *strings.Builder, process string, p *ops.Policy) {
	if p == nil {
		fmt.Fprintf(to, "# %sdoes not report its policy: it runs an older version\n", process)
		return
	}
	fmt.Fprintf(to, "# %sversion %s, from %s, loaded %s\n", process, p.Version, p.File, clock(p.LoadedAt))
	if p.Refused != "" {
		fmt.Fprintf(to, "# %sthe file is refused since %s:\n#   %s\n", process, clock(p.RefusedAt),
			strings.ReplaceAll(p.Refused, "\n", "\n#   "))
	}
}
