package main

import (
	"fmt"
	"regexp"
	"strings"
)

// heading is a version's in the changelog: "## [1.2.3] - 2026-01-31", or "## [Unreleased]".
var heading = regexp.MustCompile(`(?m)^## \[([^\]]+)\](?: - \d{4}-\d{2}-\d{2})?$`)

// notesOf cuts a version's section out of the changelog, without its heading.
func notesOf(changelog, version string) (string, error) {
	headings := heading.FindAllStringSubmatchIndex(changelog, -1)
	for i, h := range headings {
		if changelog[h[2]:h[3]] != version {
			continue
		}
		end := len(changelog)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		notes := strings.TrimSpace(changelog[h[1]:end])
		if notes == "" {
			return "", fmt.Errorf("CHANGELOG.md says nothing under [%s]", version)
		}
		return notes + "\n", nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section [%s]", version)
}
