//go:build faults

package postgres

import (
	"os"
	"slices"
	"strings"
)

// mutation tells whether the environment FAULTS_MUTATIONS names the protection that is to be switched off.
func mutation(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("FAULTS_MUTATIONS"), ","), name)
}
