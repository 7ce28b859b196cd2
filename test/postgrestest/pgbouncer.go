package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/processtest"
)

// errNoPgBouncer says what a machine lacks, for whoever runs the tests.
var errNoPgBouncer = errors.New(
	"pgbouncer is not to be found: install it (apt-get install pgbouncer) or run make install-servers")

// serverConnections is how many connections PgBouncer has to a database: fewer than its clients have to PgBouncer, so
// that statements of one client run on the connections that others used before.
const serverConnections = 6

// PgBouncer puts a real PgBouncer in transaction mode before the database at address, and gives the address of the
// database behind it. Settings are lines of its section [pgbouncer]. It is gone when the test ends.
func PgBouncer(tb testing.TB, address string, settings ...string) string {
	tb.Helper()
	through, stop, err := startPgBouncer(address, settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return through
}

func startPgBouncer(address string, settings []string) (through string, stop func(), err error) {
	binary, err := pgBouncerProgram()
	if err != nil {
		return "", nil, err
	}
	owner, err := processtest.NotRoot("postgres", "nobody")
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "pgbouncertest-")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for pgbouncer: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	server, err := url.Parse(address)
	if err != nil {
		return "", nil, fmt.Errorf("read the database's address: %w", err)
	}
	for range processtest.PortAttempts {
		port, err := processtest.FreePort()
		if err != nil {
			return "", nil, err
		}
		if err := writePgBouncer(dir, server, port, settings, owner); err != nil {
			return "", nil, err
		}
		proc, err := processtest.Launch(binary, []string{"-q", filepath.Join(dir, "pgbouncer.ini")}, dir,
			filepath.Join(dir, "log"), owner)
		if err != nil {
			return "", nil, err
		}
		behind := *server
		behind.Host = processtest.Addr(port)
		err = awaitPgBouncer(behind.String(), proc)
		if err == nil {
			return behind.String(), func() { proc.End(syscall.SIGKILL); _ = os.RemoveAll(dir) }, nil
		}
		proc.End(syscall.SIGKILL)
		if !errors.Is(err, processtest.ErrPortTaken) {
			out, _ := os.ReadFile(filepath.Join(dir, "log")) // the error below says enough without it
			return "", nil, fmt.Errorf("%w; its output is:\n%s", err, out)
		}
	}
	return "", nil, processtest.ErrPortTaken
}

// pgBouncerProgram finds it on PATH or where Debian keeps it.
func pgBouncerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoPgBouncer
}

// writePgBouncer writes the configuration, as whoever runs it.
func writePgBouncer(dir string, server *url.URL, port int, settings []string, owner *processtest.Owner) error {
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
`, server.Hostname(), server.Port(), port, filepath.Join(dir, "users"), serverConnections, strings.Join(settings, "\n"))
	for name, content := range map[string]string{"pgbouncer.ini": text, "users": fmt.Sprintf("%q \"\"\n", role)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("configure pgbouncer: %w", err)
		}
		if err := owner.Give(path); err != nil {
			return err
		}
	}
	return owner.Give(dir)
}

// awaitPgBouncer returns when the database answers behind it.
func awaitPgBouncer(address string, proc *processtest.Process) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-proc.Done():
			// It ends at once when it can't have its port, which is the only thing that another attempt changes.
			return processtest.ErrPortTaken
		case <-deadline.C:
			return fmt.Errorf("no answer through pgbouncer: %w", err)
		case <-tick.C:
		}
	}
}
