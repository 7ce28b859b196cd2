package night_test

import (
	"flag"
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
	update   = flag.Bool("update", false, "write docs/night.md")
	patience = flag.Duration("patience", 2*time.Minute, "how long a trouble may take until everything names it")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // cases wait more than they compute
		panic(err)
	}
	programs := processtest.Build(m, "dispatcher")
	dispatcherPath = programs.Path("dispatcher")
	os.Exit(postgrestest.Around(redistest.Around(programs)).Run())
}
