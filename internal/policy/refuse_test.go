package policy_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/test/transcript"
)

// refusedFiles holds policy files that are refused, each with its faults, without the name of the file. With -update
// the faults are written anew.
const refusedFiles = "testdata/refused.txt"

// Each of the files is refused, and each fault stands at its place.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	known, err := os.ReadFile(refusedFiles)
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for c := range strings.SplitSeq(strings.TrimPrefix(string(known), "== "), "\n== ") {
		name, rest, _ := strings.Cut(c, "\n")
		text, _, _ := strings.Cut(rest, ">> refused\n")
		_, err := policy.Parse("p", []byte(text))
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		faults := strings.ReplaceAll("\n"+err.Error(), "\np:", "\n")
		fmt.Fprintf(&told, "== %s\n%s>> refused%s\n", name, text, faults)
	}
	transcript.Equal(t, refusedFiles, told.String())
}

// What is too long, too deep or no text is refused before it costs much.
func TestParseRefusesWhatIsNoPolicy(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":                "",
		"bytes that are no text": "version: 1\n  \xff",
		"too many bytes":         strings.Repeat("# filler\n", 1<<17),
		"deep nesting":           "a:\n  " + strings.Repeat("[", 100),
		"deep lists":             "a:\n" + strings.Repeat("- ", 5000),
		"deep over lines":        strings.Repeat("[\n", 100),
		"too many limits":        inDefault("limits: [" + strings.Repeat("{max: 1, per: 1s}, ", 33) + "]"),
		"long category":          "version: 1\ncategories: {default: {}, " + strings.Repeat("a", 65) + ": {}}\n",
		"more ranges than may be": atEnd("windows: {night: {closed: [" +
			strings.Repeat(`{from: "08:00", to: "09:00"},`, 17) + "]}}"),
	} {
		if _, err := policy.Parse("p", []byte(text)); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %.1000v", name, err)
		}
	}
}

func TestFaultsCarryTheirPlace(t *testing.T) {
	t.Parallel()
	_, err := policy.Parse("policy.yaml", []byte(inDefault("min_gap: 0s")))
	got, ok := errors.AsType[*policy.Fault](err)
	if !ok {
		t.Fatalf("%v holds no Fault", err)
	}
	want := &policy.Fault{
		File: "policy.yaml", Line: 4, Column: 14,
		Message: "categories.default.min_gap: must be between 1ms and 366d, is 0s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fault differs (-want +got):\n%s", diff)
	}
}
