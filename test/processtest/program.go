package processtest

import (
	"fmt"
	"os"
	"syscall"
)

// WriteProgram writes an executable file that a test runs next.
//
// A process that is forked while the file is open for writing inherits the descriptor until its own exec, and running
// the file fails for so long with "text file busy". Tests fork all the time, so nothing may fork while the file is
// open.
func WriteProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		return fmt.Errorf("write program: %w", err)
	}
	return nil
}
