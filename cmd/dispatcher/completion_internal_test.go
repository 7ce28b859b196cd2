package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/test/shelltest"
)

// asProgram makes this test program be dispatcher, for the shells that call it.
const asProgram = "RUN_AS_DISPATCHER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// What dispatcher completion writes completes commands, flags and values in each shell.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{ // each shell also completes files; words are the program's
		`dispatcher pol\tche\t/etc/passw\t`:                           "<policy> <check> </etc/passwd>",
		`dispatcher --webhook-s\t`:                                    "<--webhook-secret>",
		`dispatcher pau\tcha\t`:                                       "<pause> <channel>",
		`dispatcher send-t\t--channel webp\t`:                         "<send-test> <--channel> <webpush>",
		`dispatcher completion z\t`:                                   "<completion> <zsh>",
		`dispatcher serve --log-level de\t--roles wor\t--webhook-s\t`: "<serve> <--log-level> <debug> <--roles> <worker> <--webhook-secret>",
	} {
		shells := shelltest.Shells
		if !strings.Contains(line, "/etc") {
			shells = []string{"bash"}
		}
		for _, shell := range shells {
			t.Run(shell+" "+line, func(t *testing.T) {
				t.Parallel()
				line := strings.ReplaceAll(line, `\t`, "\t")
				if got := shelltest.Complete(t, shell, program, "dispatcher", line, asProgram+"=1"); got != want {
					t.Errorf("completed to %s, want %s", got, want)
				}
			})
		}
	}
}
