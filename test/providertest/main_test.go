package providertest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/providertest"
)

// TestMain lets this program trust the servers, before anything asks for the system's roots.
func TestMain(m *testing.M) {
	dir, err := processtest.NewDir("provider")
	if err == nil {
		roots := filepath.Join(dir.Path, "roots.pem")
		err = errors.Join(providertest.WriteRoots(roots), os.Setenv("SSL_CERT_FILE", roots))
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = dir.Remove() // a temporary folder
		os.Exit(code)
	}))
}
