package settings

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// checkUTF8 refuses a command line that is not all UTF-8. Kong hands values over by way of JSON, which makes
// another text of such a value: another user's id, or the name of another file. The value is not shown, it may
// be a secret.
func checkUTF8(parser *kong.Kong, args []string) error {
	for i, arg := range args {
		if utf8.ValidString(arg) {
			continue
		}
		name, _, joined := strings.Cut(arg, "=")
		if !joined && i > 0 {
			name = args[i-1]
		}
		if utf8.ValidString(name) && takesValue(parser, name) {
			return &UsageError{Setting: name, Message: "must be valid UTF-8"}
		}
		return &UsageError{Message: fmt.Sprintf("argument %d must be valid UTF-8", i+1)}
	}
	return nil
}

// takesValue reports whether a name, such as --user or -f, is that of a flag with a value.
func takesValue(parser *kong.Kong, name string) bool {
	for _, flag := range allFlags(parser.Model.Node) {
		if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
			return !flag.IsBool()
		}
	}
	return false
}
