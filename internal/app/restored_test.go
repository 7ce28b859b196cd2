//go:build accept

package app_test

import (
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// restoredPolicy tries again what was refused until the test has made its backup.
const restoredPolicy = `
version: 1
categories: {default: {}}
retry: {max_attempts: 50, min_backoff: 3s, max_backoff: 3s}
`

// backedUp is a deployment that is restored from a backup.
type backedUp struct{ *durable }

// count asks the database for a number.
func (d *backedUp) count(sql string) (n int) {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.databaseURL)
	if err == nil {
		err = conn.QueryRow(d.t.Context(), sql).Scan(&n)
		_ = conn.Close(d.t.Context())
	}
	if err != nil {
		return -1
	}
	return n
}

// await waits until a number is reached.
func (d *backedUp) await(what, sql string, want int) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for d.count(sql) != want {
		if time.Now().After(deadline) {
			d.t.Fatalf("%s: %d, want %d", what, d.count(sql), want)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// theCommands are those of the section about backups in docs/operate.md, by their first word.
func theCommands(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Back up and restore\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := map[string]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		word, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(word, "pg_") {
			commands[word] = line
		}
	}
	return commands
}

// run runs one of the page's commands with the deployment's settings.
func (d *backedUp) run(dir, command string) {
	d.t.Helper()
	shell := exec.CommandContext(d.t.Context(), "sh", "-e", "-c", command)
	shell.Dir, shell.Env = dir, append(os.Environ(), "DATABASE_URL="+d.databaseURL,
		"PATH="+postgrestest.Tools(d.t)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// wantNoDifference runs what `dispatcher rebuild --verify` does.
func (d *backedUp) wantNoDifference() {
	d.t.Helper()
	err := deployment.Verify(d.t.Context(), d.settings(), slog.New(slog.DiscardHandler),
		func(found rebuild.Difference) error {
			d.t.Errorf("Redis differs from the restored database: %+v", found)
			return nil
		})
	if err != nil {
		d.t.Error(err)
	}
}

// Postgres is restored as docs/operate.md says, while Redis has lived on. Everything that is open in the restored
// database reaches an end.
func TestRestoringPostgresAsThePageSays(t *testing.T) {
	t.Parallel()
	for name, backUp := range map[string]func(d *backedUp) (restore func()){
		"a dump into the same cluster": func(d *backedUp) func() {
			dir, commands := d.t.TempDir(), theCommands(d.t)
			d.run(dir, commands["pg_dump"])
			return func() { d.stop(); d.run(dir, commands["pg_restore"]); d.start() }
		},
		"a snapshot of the disk": func(d *backedUp) func() {
			restore := d.postgres.Snapshot()
			return func() { d.stop(); restore(); d.start() }
		},
		"the last moments of an asynchronous fail-over": func(d *backedUp) func() {
			replica := postgrestest.StartReplica(d.t, d.postgres)
			d.await("the replica follows",
				"SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()",
				1)
			replica.Kill()
			return func() {
				d.postgres.Kill()
				replica.Restart()
				replica.Promote()
				d.stop()
				d.databaseURL = replica.URL()
				d.start()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &backedUp{newDurable(t)}
			d.writePolicy(restoredPolicy)
			var accepts atomic.Bool
			d.receiver.respond = func(_ arrival, w http.ResponseWriter) {
				status := http.StatusServiceUnavailable
				if accepts.Load() {
					status = http.StatusNoContent
				}
				w.WriteHeader(status)
			}
			d.start()
			d.bulk(d.receiver.crowd("ada", "default", 20))
			d.receiver.await(t, 20)
			restore := backUp(d)
			accepts.Store(true)
			d.bulk(d.receiver.crowd("eve", "default", 20))
			d.await("all have ended", stillOpen, 0)
			restore()
			if n := d.count("SELECT count(*) FROM pacer.notifications"); n != 20 {
				t.Errorf("the restored database has %d notifications, want the 20 of the backup", n)
			}
			d.await("what the backup has as open has ended", stillOpen, 0)
			if n := d.count("SELECT count(*) FROM pacer.notifications WHERE status = 'delivered'"); n != 20 {
				t.Errorf("%d of 20 were delivered", n)
			}
			d.wantNoDifference()
		})
	}
}

// stillOpen counts what has not ended.
const stillOpen = "SELECT count(*) FROM pacer.notifications WHERE ended_at IS NULL"
