package postgrestest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// errNoPgBouncer says what a machine lacks, for whoever runs the tests.
var errNoPgBouncer = errors.New(
	"pgbouncer is not to be found: install it (apt-get install pgbouncer) or run make install-servers")

// serverConnections is how many connections PgBouncer has to a database: fewer than its clients have to PgBouncer, so
// that statements of one client run on the connections that others used before.
const serverConnections = 6

// throughTimeout bounds one attempt to reach the database through a PgBouncer that is starting.
const throughTimeout = 10 * time.Second

// PgBouncer puts a real PgBouncer in transaction mode before the database at address, and returns the address of the
// database behind it. Settings are lines of its section [pgbouncer]. It is gone when the test ends.
func PgBouncer(tb testing.TB, address string, settings ...string) string {
	tb.Helper()
	database, err := url.Parse(address)
	if err != nil {
		tb.Fatalf("read the database's address: %v", err)
	}
	program, err := pgBouncer(database, settings)
	if err != nil {
		tb.Fatal(err)
	}
	return through(database, processtest.Start(tb, program).Port())
}

// through is the database behind a PgBouncer on the port.
func through(database *url.URL, port int) string {
	behind := *database
	behind.Host = processtest.Addr(port)
	return behind.String()
}

// pgBouncer runs PgBouncer before a database.
func pgBouncer(database *url.URL, settings []string) (processtest.Program, error) {
	binary, err := pgBouncerBinary()
	if err != nil {
		return processtest.Program{}, err
	}
	owner, err := processtest.NotRoot("postgres", "nobody")
	if err != nil {
		return processtest.Program{}, err
	}
	return processtest.Program{
		Name: "pgbouncer", Owner: owner,
		Command: func(dir string, port int) (string, []string, error) {
			return binary, []string{filepath.Join(dir, "pgbouncer.ini")},
				configure(dir, database, port, settings, owner)
		},
		// Whoever else may have the port does not lead to this database.
		Ready: func(_ string, port int) bool { return reachable(through(database, port), throughTimeout) },
	}, nil
}

// pgBouncerBinary finds it on PATH or where Debian keeps it.
func pgBouncerBinary() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoPgBouncer
}

// configure writes PgBouncer's settings, for the user who runs it.
func configure(dir string, database *url.URL, port int, settings []string, owner *processtest.Owner) error {
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = %d
max_client_conn = 200
%s
`, database.Hostname(), database.Port(), port, filepath.Join(dir, "users"), serverConnections, strings.Join(settings, "\n"))
	for name, content := range map[string]string{"pgbouncer.ini": text, "users": fmt.Sprintf("%q \"\"\n", role)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("configure pgbouncer: %w", err)
		}
		if err := owner.Give(path); err != nil {
			return err
		}
	}
	return nil
}
