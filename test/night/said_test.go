package night_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// golden holds what is said in each case.
const golden = "testdata/said.golden"

// said is what a person reads in one case: the standing of `dispatcher user`, the reason of `dispatcher explain`, and
// the sentences of the dashboard.
type said struct {
	user, explain string
	dashboard     []string
}

// expected is what the golden file has, by the title of the case. A run with -update corrects it.
var expected struct {
	sync.Mutex
	said map[string]said
}

// placeholders stand in the golden file for what differs from run to run. An update knows some by their form; the
// others are put in by hand.
var placeholders = []struct {
	name, pattern string
	known         bool
}{
	{"TIME", `(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}`, true},
	{"CLOCK", `\b\d\d:\d\d\b`, true},
	{"OPERATOR", `\S+ \(127\.0\.0\.1\)`, true},
	{"HOST", `127\.0\.0\.1(?::\d+)?`, true},
	{"PROCESS", `[\w.-]+-[A-Z2-7]{8}`, true},
	{"VERSION", `\b[0-9a-f]{16}\b`, true},
	{"FILE", `/\S+`, false},
	{"DURATION", `[0-9hms.]+`, false},
	{"SECONDS", `\d+\.\d`, false},
	{"COUNT", `\d+`, false},
	{"USER", `\w+`, false},
}

// matches reports whether a text is as the golden file has it.
func matches(want, got string) bool {
	expression := regexp.QuoteMeta(want)
	for _, p := range placeholders {
		expression = regexp.MustCompile(`\b`+p.name+`\b`).ReplaceAllLiteralString(expression, p.pattern)
	}
	return regexp.MustCompile(`^(?s:` + expression + `)$`).MatchString(got)
}

func (s said) matches(got said) bool {
	return matches(s.user, got.user) && matches(s.explain, got.explain) &&
		slices.EqualFunc(s.dashboard, got.dashboard, matches)
}

// readGolden reads the golden file: titles, and below each, indented, who says what.
func readGolden() (map[string]said, error) {
	text, err := os.ReadFile(golden)
	if err != nil {
		return nil, err
	}
	all := map[string]said{}
	for section := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		title, lines, _ := strings.Cut(section, "\n")
		var s said
		for line := range strings.Lines(lines) {
			who, sentence, _ := strings.Cut(strings.TrimSpace(line), " ")
			sentence = strings.TrimSpace(sentence)
			switch who {
			case "user":
				s.user = sentence
			case "explain":
				s.explain = sentence
			case "dashboard":
				s.dashboard = append(s.dashboard, sentence)
			default:
				return nil, fmt.Errorf("%s: %q says nothing in a case", golden, who)
			}
		}
		all[title] = s
	}
	return all, nil
}

// general is what was said with placeholders in place of what differs from run to run, where that can be known.
func general(s said) said {
	replace := func(text string) string {
		for _, p := range placeholders {
			if p.known {
				text = regexp.MustCompile(p.pattern).ReplaceAllLiteralString(text, p.name)
			}
		}
		return text
	}
	is := said{user: replace(s.user), explain: replace(s.explain)}
	for _, sentence := range s.dashboard {
		is.dashboard = append(is.dashboard, replace(sentence))
	}
	return is
}

// learn has the golden file say what was said.
func learn(title string, s said) {
	expected.Lock()
	defer expected.Unlock()
	expected.said[title] = s
}

// writeGolden writes the golden file, in the order of the cases.
func writeGolden() error {
	var all []string
	for _, c := range cases() {
		s := expected.said[c.title]
		section := fmt.Sprintf("%s\n  user       %s\n  explain    %s\n", c.title, s.user, s.explain)
		for _, sentence := range s.dashboard {
			section += "  dashboard  " + sentence + "\n"
		}
		all = append(all, section)
	}
	return os.WriteFile(golden, []byte(strings.Join(all, "\n")), 0o600)
}
