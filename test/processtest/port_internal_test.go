package processtest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// A port that a program was given is not given to another, although nobody listens on it yet.
func TestAPortIsForOneProgram(t *testing.T) {
	t.Parallel()
	const variable = "PACER_TEST_PORT"
	if text := os.Getenv(variable); text != "" { // this is the other program
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := claim(port); !errors.Is(err, ErrPortTaken) {
			t.Errorf("port %d, which is another program's: %v", port, err)
		}
		return
	}
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPortIsForOneProgram$")
	other.Env = append(os.Environ(), variable+"="+strconv.Itoa(port))
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("the other program: %v\n%s", err, out)
	}
}
