package messages_test

import (
	"regexp"
	"strings"
	"testing"
)

// leastRows is how many rows the table must have.
const leastRows = 290

// row is one message.
type row struct {
	name string
	// provoke makes pacer say it.
	provoke func(t *testing.T) string
	// want is the message; <any> stands for what differs from run to run, such as a time or a port.
	want string
}

// matches reports whether a text is what the row wants, all of it.
func (r row) matches(text string) bool {
	parts := strings.Split(r.want, "<any>")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, `[^\n]*?`) + `\z`).MatchString(text)
}

func TestMessages(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	surfaces := map[string][]row{
		"fields": fieldRows(d), "requests": requestRows(d), "settings": settingRows(d), "start": startRows(d),
		"policy": policyRows(), "hours": hourRows(), "templates": templateRows(), "client": clientRows(d),
		"enqueue":  enqueueRows(d),
		"commands": commandRows(d), "e-mail": emailRows(d), "actions": actionRows(d), "SQL": sqlRows(d),
		"log": logRows(), "promises": promiseRows(d), "policy changes": policyChangeRows(d),
	}
	seen, rows := map[string]bool{}, 0
	for surface, all := range surfaces {
		for _, r := range all {
			if seen[surface+"/"+r.name] {
				t.Errorf("two rows of %s are called %q", surface, r.name)
			}
			seen[surface+"/"+r.name] = true
			rows++
		}
		t.Run(surface, func(t *testing.T) {
			t.Parallel()
			for _, r := range all {
				t.Run(r.name, func(t *testing.T) {
					if got := r.provoke(t); !r.matches(got) {
						t.Errorf("says\n%s\nwant\n%s", got, r.want)
					}
				})
			}
		})
	}
	if rows < leastRows {
		t.Errorf("the table has %d rows, want at least %d", rows, leastRows)
	}
}
