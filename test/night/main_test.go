package night_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// dispatcherPath is the built program.
var dispatcherPath string

var (
	update   = flag.Bool("update", false, "write the golden file, and the tables of docs/runbook.md")
	patience = flag.Duration("patience", 2*time.Minute, "how long a trouble may take until everything names it")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // cases wait more than they compute
		panic(err)
	}
	var err error
	if expected.said, err = readGolden(); err != nil {
		panic(err)
	}
	programs := processtest.Build(m, "dispatcher")
	dispatcherPath = programs.Path("dispatcher")
	code := postgrestest.Around(redistest.Around(programs)).Run()
	if *update {
		if err := write(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// write writes what the cases have learned.
func write() error {
	if err := writeGolden(); err != nil {
		return err
	}
	_, page, err := runbookPage()
	return errors.Join(err, os.WriteFile(runbook, []byte(page), 0o600))
}
