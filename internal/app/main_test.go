package app_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/providertest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// trustTestServers lets this program trust the certificate that all servers of httptest have, before anything asks for
// the system's roots. The roots are in a file of the returned directory.
func trustTestServers() *processtest.Dir {
	dir, err := processtest.NewDir("roots")
	if err != nil {
		panic(err)
	}
	roots := filepath.Join(dir.Path, "roots.pem")
	if err := errors.Join(providertest.WriteRoots(roots), os.Setenv("SSL_CERT_FILE", roots)); err != nil {
		panic(err)
	}
	return dir
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // tests wait more than they compute
		panic(err)
	}
	roots := trustTestServers()
	options := []goleak.Option{
		goleak.Cleanup(func(code int) {
			_ = roots.Remove() // a temporary folder
			os.Exit(code)
		}),
		// go-redis ends these a moment after its client is closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*fdEngine).run"),
		goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"),
		// After a server died, the pool's dialler sleeps a second before it sees that the pool is closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
	}
	if os.Getenv(tracedMarker) != "" { // the exporter of traces keeps its connection until the process ends
		options = append(options, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
	}
	goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m)), options...)
}
