package docs_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	fencedBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	linkTo      = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headingLine = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	linkedName  = regexp.MustCompile("\\[`(?:\\w+\\.)?(\\w+)`\\]\\(([^)#]+\\.(?:go|lua))\\)")
)

// TestLinksLeadSomewhere follows every relative link of every Markdown page, to the file and to the heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	followed := 0
	for _, page := range pages(t) {
		text := codeSpan.ReplaceAllString(fencedBlock.ReplaceAllString(readFile(t, page), ""), "")
		for _, found := range linkTo.FindAllStringSubmatch(text, -1) {
			target, err := url.Parse(found[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if target.Scheme != "" {
				continue // another host's
			}
			followed++
			if err := follow(t, page, target); err != nil {
				t.Errorf("%s links to %s: %v", page, found[1], err)
			}
		}
	}
	if followed < 50 {
		t.Errorf("found %d relative links only", followed)
	}
}

// TestNamesAreInTheFilesThatTheyLinkTo looks for the declaration of every name that links to a file of Go or Lua.
func TestNamesAreInTheFilesThatTheyLinkTo(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range pages(t) {
		for _, link := range linkedName.FindAllStringSubmatch(readFile(t, page), -1) {
			name, file := link[1], filepath.Join(filepath.Dir(page), link[2])
			if strings.HasSuffix(file, "."+name) {
				continue // the link is to the whole file
			}
			found++
			declared := regexp.MustCompile(`(?m)^\s*(local |func (\([^)]*\) )?|function |type |const |var )*(\w+\.)?` + name + `\b`)
			if !declared.MatchString(readFile(t, file)) {
				t.Errorf("%s: %s does not declare %s", page, file, name)
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d linked names only", found)
	}
}

// follow reports why a link of a page leads nowhere, or nil.
func follow(t *testing.T, page string, target *url.URL) error {
	t.Helper()
	path := page
	if target.Path != "" {
		path = filepath.Join(filepath.Dir(page), target.Path)
	}
	if _, err := os.Stat(filepath.Join(top, path)); err != nil {
		return fmt.Errorf("%s does not exist", path)
	}
	if target.Fragment == "" {
		return nil
	}
	text := fencedBlock.ReplaceAllString(readFile(t, path), "")
	for _, heading := range headingLine.FindAllStringSubmatch(text, -1) {
		if anchorOf(heading[1]) == target.Fragment {
			return nil
		}
	}
	return fmt.Errorf("%s has no heading of that name", path)
}

// anchorOf is the name that a forge gives to a heading: its text in lower case, with hyphens for spaces and without
// punctuation.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, linkText.ReplaceAllString(heading, "$1"))
}
