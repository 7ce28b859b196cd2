//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// withoutFiles is set in the process that can open no file, as if there were none of time zones.
const withoutFiles = "PROCESS_WITHOUT_FILES"

// The program knows every time zone wherever it runs.
func TestTimeZonesNeedNoFile(t *testing.T) {
	t.Parallel()
	if os.Getenv(withoutFiles) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTimeZonesNeedNoFile$", "-test.v")
		child.Env = append(os.Environ(), withoutFiles+"=1", "ZONEINFO=/nowhere")
		if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{}); err != nil {
		t.Fatal(err)
	}
	if file, err := os.Open(os.Args[0]); err == nil {
		t.Fatalf("%s can still be opened", file.Name())
	}
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Chatham", "UTC"} {
		if _, err := time.LoadLocation(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := time.LoadLocation("Europe/Atlantis"); err == nil {
		t.Error("a zone is known that does not exist")
	}
}
