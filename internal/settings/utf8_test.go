package settings_test

import (
	"strings"
	"testing"
)

// What is no UTF-8 would be taken for another text. The refusal names the flag, and not the value.
func TestACommandLineIsUTF8(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a value apart":           {args: []string{"enqueue", "--token", "M\xfcller"}, want: "--token"},
		"a value with the flag":   {args: []string{"enqueue", "--token=\xfc"}, want: "--token"},
		"behind a switch":         {args: []string{"enqueue", "--dry-run", "\xfc"}, want: "argument 3"},
		"a name":                  {args: []string{"enqueue", "--t\xfcken=x"}, want: "argument 2"},
		"the first":               {args: []string{"\xfc"}, want: "argument 1"},
		"behind the end of flags": {args: []string{"enqueue", "--", "\xfc"}, want: "argument 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, nil, c.args...)
			if err == nil || !strings.HasPrefix(err.Error(), c.want+" ") {
				t.Errorf("got %v, want %s refused", err, c.want)
			}
		})
	}
}
