package night_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
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
	dir, err := processtest.NewDir("night")
	if err != nil {
		panic(err)
	}
	dispatcherPath = filepath.Join(dir.Path, "dispatcher")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", dispatcherPath, "../../cmd/dispatcher")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(errors.Join(err, dir.Remove()))
	}
	code := postgrestest.Around(redistest.Around(m)).Run()
	_ = dir.Remove() // a temporary folder
	os.Exit(code)
}
