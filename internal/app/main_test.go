package app_test

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// trustTestServers lets this program trust the certificate that all servers of httptest have, before anything asks for the
// system's roots.
func trustTestServers() {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	file, err := os.CreateTemp("", "pacer-roots-*.pem")
	if err == nil {
		err = errors.Join(pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), file.Close(),
			os.Setenv("SSL_CERT_FILE", file.Name()))
	}
	if err != nil {
		panic(err)
	}
}

func TestMain(m *testing.M) {
	trustTestServers()
	options := []goleak.Option{
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
