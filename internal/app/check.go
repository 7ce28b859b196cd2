package app

import (
	"fmt"
	"os"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
)

// Explanation is the answer of the explain page, for the command that shows it.
type Explanation = ops.Explanation

// UserCategory is a part of the answer of the user page, for the command that shows it.
type UserCategory = ops.UserCategory

type (
	// Snapshot is what ops see of a deployment, for the commands that show it.
	Snapshot = ops.Snapshot
	// Action is what the commands post to the ops pages, Done what comes back.
	Action = ops.Action
	// Done is the answer to an [Action].
	Done = ops.Done
	// Kind is what an action pauses or resumes.
	Kind = control.Kind
)

// CheckPolicy validates a policy file and sums it up in a sentence. The error tells every fault with its line.
func CheckPolicy(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the policy file: %w", err)
	}
	p, err := policy.Parse(path, data)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is valid: %d categories, %d user caps", path, len(p.Categories), len(p.UserCap)), nil
}
