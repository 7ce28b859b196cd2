package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// logMessage is how a test looks for a message in a process's log, in a string of either kind.
var logMessage = regexp.MustCompile(`msg=\\?"([^"\\]+)`)

// TestLogMessagesInTestsExist fails when a test looks for a message that nothing logs: after the message has got other
// words, a test that waits for its absence, or takes note of its presence, sees nothing any more.
func TestLogMessagesInTestsExist(t *testing.T) {
	t.Parallel()
	var product strings.Builder
	sought := map[string]string{} // message, and a test that looks for it and does not log it itself
	for _, name := range projectFiles(t) {
		if filepath.Ext(name) != ".go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			product.Write(content)
			continue
		}
		for _, found := range logMessage.FindAllSubmatch(content, -1) {
			message, others := string(found[1]), logMessage.ReplaceAllString(string(content), "")
			if !strings.Contains(others, `"`+message) {
				sought[message] = name
			}
		}
	}
	if len(sought) < 5 {
		t.Fatalf("%d messages are looked for: this test does not see what it is for", len(sought))
	}
	for message, test := range sought {
		if !strings.Contains(product.String(), `"`+message) {
			t.Errorf("%s looks for %q, which nothing logs", test, message)
		}
	}
}
