package nearest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/nearest"
)

func TestName(t *testing.T) {
	t.Parallel()
	names := []string{"security", "chat", "default", "chap", "weekly-digest", "größe"}
	for name, test := range map[string]struct{ written, want string }{
		"a character too many":       {written: "chatt", want: "chat"},
		"a character too few":        {written: "defalt", want: "default"},
		"another character":          {written: "securiry", want: "security"},
		"neighbours exchanged":       {written: "caht", want: "chat"},
		"upper case":                 {written: "CHAT", want: "chat"},
		"two faults of a long name":  {written: "weekly_digets", want: "weekly-digest"},
		"its beginning":              {written: "sec", want: "security"},
		"equally near":               {written: "chaz", want: "chap"},
		"one character, two bytes":   {written: "größte", want: "größe"},
		"too far":                    {written: "bulletin"},
		"too short to be near":       {written: "ch"},
		"nothing":                    {written: ""},
		"longer than anybody writes": {written: strings.Repeat("chat", 100)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := nearest.Name(test.written, names); got != test.want {
				t.Errorf("%q: got %q, want %q", test.written, got, test.want)
			}
		})
	}
}

func TestNameOfNone(t *testing.T) {
	t.Parallel()
	if got := nearest.Name("chat", nil) + nearest.Hint("chat", nil) + nearest.List(nil); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

// A policy with thousands of categories does not make a message of thousands of words.
func TestListCountsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	got := nearest.List(names)
	if !strings.HasPrefix(got, "c000, c001, ") || !strings.HasSuffix(got, "c023 and 976 more") {
		t.Errorf("got %s", got)
	}
}

func Example() {
	categories := []string{"security", "default", "chat"}
	fmt.Printf("%q is not named in the policy; it names %s%s\n",
		"chatt", nearest.List(categories), nearest.Hint("chatt", categories))
	// Output:
	// "chatt" is not named in the policy; it names chat, default, security (did you mean chat?)
}

func FuzzName(f *testing.F) {
	f.Add("chatt", "chat", "default")
	f.Fuzz(func(t *testing.T, written, a, b string) {
		switch got := nearest.Name(written, []string{a, b}); got {
		case "", a, b:
		default:
			t.Errorf("%q is none of the names", got)
		}
	})
}

func BenchmarkName(b *testing.B) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("category-%03d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		nearest.Name("categroy-017", names)
	}
}
