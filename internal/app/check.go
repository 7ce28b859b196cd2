package app

import (
	"fmt"
	"os"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
)

// Explanation and UserCategory are the answers of the ops pages, for the commands that show them.
type (
	Explanation  = ops.Explanation
	UserCategory = ops.UserCategory
)

// CheckPolicy validates a policy file and sums it up in a sentence. The error tells every fault with its line.
func CheckPolicy(path string) (string, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user's own file
	if err != nil {
		return "", fmt.Errorf("read the policy file: %w", err)
	}
	p, err := policy.Parse(path, data)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is valid: %d categories, %d user caps", path, len(p.Categories), len(p.UserCap)), nil
}
