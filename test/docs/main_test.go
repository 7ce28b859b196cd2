package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// programs is the folder with dispatcher and enqueue.
var programs string

func TestMain(m *testing.M) {
	built := processtest.Build(m, "dispatcher", "enqueue")
	programs = filepath.Dir(built.Path("dispatcher"))
	os.Exit(postgrestest.Around(redistest.Around(built)).Run())
}
