package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxSubject is the length that a subject is shown with everywhere, in characters.
	maxSubject = 72
	// maxLine is that of all files, see .editorconfig.
	maxLine = 120
)

// unfinished is what Git writes for commits that are folded into another before anybody else sees them.
var unfinished = regexp.MustCompile(`(?i)^(fixup|squash|amend)!|^wip\b`)

// area is the part of pacer that a subject may begin with: "agenda: ", "push/webhook: ".
var area = regexp.MustCompile(`^[a-z][a-z0-9/.-]*(, [a-z][a-z0-9/.-]*)*: `)

// faultsOf returns what is wrong with a message, one sentence each.
func faultsOf(message string) []string {
	subject, rest, _ := strings.Cut(strings.TrimSpace(message), "\n")
	if unfinished.MatchString(subject) {
		return []string{"it is meant to become part of another commit"}
	}
	if strings.HasPrefix(subject, `Revert "`) && strings.Contains(rest, "This reverts commit ") {
		return nil // Git's own words; the body names what is reverted
	}
	var faults []string
	if n := utf8.RuneCountInString(subject); n > maxSubject {
		faults = append(faults, fmt.Sprintf("the subject has %d characters, at most %d are shown", n, maxSubject))
	}
	if strings.HasSuffix(subject, ".") {
		faults = append(faults, "the subject ends in a full stop")
	}
	if word := firstWord(subject); !imperative(word) {
		faults = append(faults, fmt.Sprintf("the subject does not say what the commit does, in the imperative (%q)",
			word))
	}
	return append(faults, bodyFaults(rest)...)
}

// bodyFaults returns what is wrong with all that follows the subject.
func bodyFaults(rest string) []string {
	if rest == "" {
		return []string{"there is no body that says why"}
	}
	var faults []string
	if !strings.HasPrefix(rest, "\n") {
		faults = append(faults, "no empty line follows the subject")
	}
	for line := range strings.Lines(rest) {
		line = strings.TrimRight(line, "\n")
		// A line of one word cannot be broken: an address, or what a program printed.
		if n := utf8.RuneCountInString(line); n > maxLine && strings.Contains(strings.TrimSpace(line), " ") {
			faults = append(faults, fmt.Sprintf("a line of the body has %d characters, want at most %d", n, maxLine))
		}
	}
	return faults
}

// firstWord is the subject's first after the area.
func firstWord(subject string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(subject, area.FindString(subject)), " ")
	return strings.Trim(strings.ToLower(word), "`\"',:;")
}

// noVerbs begin sentences that say what is, instead of what the commit does.
var noVerbs = strings.Fields(`
	a an the this that these those it its there here what when where who which how why if as in on at of for from
	with without after before by to no not none nothing never always all each every any some both one two more
	most only also and or but is are was were be been has have had does did can could may might must should would
	will`)

// verbs end like another form of a verb, or like a plural, and are none.
var verbs = strings.Fields(`
	bring string ping sing ring embed feed need speed seed shed shred proceed succeed exceed bias focus process
	pass address discuss compress suppress express press miss cross toss dismiss assess access stress alias`)

// imperative reports whether the word can be a verb in the imperative. It knows words by their ends, not by their
// meaning.
func imperative(word string) bool {
	if slices.Contains(verbs, word) {
		return true
	}
	if word == "" || slices.Contains(noVerbs, word) {
		return false
	}
	for _, ending := range []string{"ing", "ed", "s"} {
		if strings.HasSuffix(word, ending) {
			return false
		}
	}
	return true
}
