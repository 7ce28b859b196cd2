// Package transcript compares what pacer says with golden files. A transcript holds inputs and what each is answered;
// go test -update writes the answers anew. Golden files hold words: what must never change is asserted elsewhere.
package transcript

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

// Updating reports whether golden files are written instead of compared.
func Updating() bool { return *update }

// Equal compares a text with a golden file.
func Equal(tb testing.TB, file, got string) {
	tb.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		tb.Errorf("%s differs (-want +got); -update writes it anew:\n%s", file, diff)
	}
}

// writing is held while a file of [Line] is read or written: tests that share it run side by side.
var writing sync.Mutex

// Line compares a text with the line that a golden file has under a name; -update writes this line anew.
func Line(tb testing.TB, file, name, got string) {
	tb.Helper()
	writing.Lock()
	defer writing.Unlock()
	text, err := os.ReadFile(file)
	if err != nil && !(*update && errors.Is(err, fs.ErrNotExist)) {
		tb.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		of, said, _ := strings.Cut(line, ": ")
		lines[of] = said
	}
	got = strings.ReplaceAll(got, "\n", `\n`) + "\n"
	if *update {
		lines[name] = got
		var all strings.Builder
		for _, of := range slices.Sorted(maps.Keys(lines)) {
			all.WriteString(of + ": " + lines[of])
		}
		if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	if lines[name] != got {
		tb.Errorf("%s: %s says\n%swant (-update writes it anew)\n%s", file, name, got, lines[name])
	}
}

// indent stands before each line of an answer.
const indent = "    "

// Play gives each input of a transcript to answer, in order, and compares the answers. An input is one or more lines
// that begin with >, and its answer the indented lines that follow. In an input, <<x*65>> stands for 65 times x.
func Play(t *testing.T, file string, answer func(t *testing.T, input []string) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var played strings.Builder
	var input []string
	finish := func() {
		if len(input) == 0 {
			return
		}
		got := answer(t, input)
		for line := range strings.Lines(strings.TrimRight(got, "\n") + "\n") {
			played.WriteString(strings.TrimRight(indent+line, " \n") + "\n")
		}
		input = nil
	}
	for line := range strings.Lines(string(text)) {
		of, isInput := strings.CutPrefix(line, ">")
		if isInput {
			input = append(input, repeated(strings.TrimSuffix(strings.TrimPrefix(of, " "), "\n")))
		} else {
			finish()
		}
		if !strings.HasPrefix(line, indent) {
			played.WriteString(line)
		}
	}
	finish()
	Equal(t, file, played.String())
}

var (
	repeats = regexp.MustCompile(`<<(.+?)\*(\d+)>>`)
	escapes = strings.NewReplacer(`\n`, "\n", `\xff`, "\xff")
)

// repeated is an input with its repetitions written out.
func repeated(input string) string {
	return repeats.ReplaceAllStringFunc(input, func(all string) string {
		parts := repeats.FindStringSubmatch(all)
		count, err := strconv.Atoi(parts[2])
		if err != nil {
			panic(fmt.Errorf("%s: %w", all, err)) // a fault of the transcript
		}
		return strings.Repeat(escapes.Replace(parts[1]), count)
	})
}
