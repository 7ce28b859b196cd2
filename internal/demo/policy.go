package demo

import (
	_ "embed" // for policyText
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// nights is how many nights the demo has, each nightLength long, with as much time between two.
	nights      = 16
	nightLength = time.Minute
	// leastNight is how much of the first night is left at least when the demo begins in it.
	leastNight = 25 * time.Second
)

//go:embed policy.yaml
var policyText string

// Night is a time in which the demo's users are not disturbed, except by what may.
type Night struct{ Begins, Ends time.Time }

// Nights are the demo's, from a moment on. A policy writes whole minutes, so the first one may have begun.
func Nights(now time.Time) []Night {
	begins := now.UTC().Truncate(time.Minute)
	if begins.Add(nightLength).Sub(now) < leastNight {
		begins = begins.Add(time.Minute)
	}
	all := make([]Night, nights)
	for i := range all {
		all[i].Begins = begins.Add(time.Duration(i) * 2 * nightLength)
		all[i].Ends = all[i].Begins.Add(nightLength)
	}
	return all
}

// Policy is the text of the demo's policy, with nights.
func Policy(all []Night) string {
	var ranges strings.Builder
	for _, night := range all {
		const clock = "15:04"
		fmt.Fprintf(&ranges, "      - {from: %q, to: %q}\n", night.Begins.Format(clock), night.Ends.Format(clock))
	}
	return strings.Replace(policyText, "NIGHTS\n", ranges.String(), 1)
}

// WritePolicy writes the demo's policy into a new file; remove removes it.
func WritePolicy(all []Night) (path string, remove func() error, err error) {
	folder, err := os.MkdirTemp("", "pacer-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the demo's policy: %w; set TMPDIR to a writable folder, "+
			"or name a policy file with --policy", err)
	}
	path = filepath.Join(folder, "policy.yaml")
	if err := os.WriteFile(path, []byte(Policy(all)), 0o600); err != nil {
		_ = os.RemoveAll(folder) // the first error counts
		return "", nil, fmt.Errorf("write the demo's policy: %w", err)
	}
	return path, func() error { return os.RemoveAll(folder) }, nil
}
