package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/redistest"
)

var update = flag.Bool("update", false, "write the responses of the API's examples anew")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m)),
		goleak.Cleanup(func(code int) {
			if built.dir != nil {
				_ = built.dir.Remove() // a temporary folder
			}
			os.Exit(code)
		}))
}

// built is the folder with both programs. It has to be a package variable: TestMain and the tests meet nowhere else.
var built struct {
	once sync.Once
	dir  *processtest.Dir
	err  error
}

// programs returns the folder with dispatcher and enqueue, which are built once from the sources.
func programs(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = processtest.NewDir("programs"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", built.dir.Path+string(filepath.Separator), "./cmd/...") //nolint:noctx // outlives the test that asks first
		build.Dir = top
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the programs: %w\n%s", err, bytes.TrimSpace(out))
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir.Path
}
