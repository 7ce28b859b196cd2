//go:build accept

package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// deployDurable starts workers on a database that is empty, and that nobody analyses: no plan may depend on what
// Postgres knows of its tables.
func deployDurable(t *testing.T, policy string, workers int) *deployment {
	t.Helper()
	server, database := redistest.Start(t), postgrestest.Start(t, "autovacuum=off")
	database.Migrate()
	d := &deployment{
		t: t, redis: server, url: server.URL(), database: database.URL(), policy: policyFile(t, policy),
	}
	for range workers {
		d.workers = append(d.workers, d.start())
	}
	return d
}

// A hundred thousand lines go into a database that was empty a moment ago. Deliveries go on from the first second: in
// each tenth of the intake some arrive, and they never pause for long. When plans depended on statistics, they stood
// still for 34 s; now the longest pause is some tenths of a second, on a busy machine.
func TestDeliveriesGoOnWhileAFreshDatabaseFills(t *testing.T) {
	const lines, users, longest = 100_000, 5000, 5 * time.Second
	d, r := deployDurable(t, "version: 1\ncategories:\n  default: {limits: []}\n", 2), newReceiver(t)
	begin := time.Now()
	ids := d.enqueue(d.workers[0], linesFile(t, lines, users, r.server.URL))
	intake := time.Since(begin)
	d.drain(d.workers[0], 10*time.Minute)

	got := r.deliveries()
	slices.SortFunc(got, func(a, b delivery) int { return a.Arrived.Compare(b.Arrived) })
	var tenths [10]int
	pause, last, during := time.Duration(0), begin, 0
	for _, g := range got {
		pause, last = max(pause, g.Arrived.Sub(last)), g.Arrived
		if tenth := int(10 * g.Arrived.Sub(begin) / intake); tenth < len(tenths) {
			tenths[tenth]++
			during++
		}
	}
	lost, doubled := compare(ids, got)
	t.Logf("%d lines of %d users in %s (%.0f/s), delivered after %s (%.0f/s); the first after %s, the longest pause %s; "+
		"in the tenths of the intake %v, %.0f %% in all; %d lost, %d doubled", len(ids), users,
		intake.Round(time.Millisecond), lines/intake.Seconds(), last.Sub(begin).Round(time.Millisecond),
		lines/last.Sub(begin).Seconds(), got[0].Arrived.Sub(begin).Round(time.Millisecond),
		pause.Round(time.Millisecond), tenths, 100*float64(during)/lines, lost, doubled)
	if pause > longest {
		t.Errorf("no delivery for %s, want at most %s", pause, longest)
	}
	for i, n := range tenths[1:] { // in the first the processes begin
		if n == 0 {
			t.Errorf("none was delivered in tenth %d of the intake", i+2)
		}
	}
	if len(ids) != lines || lost != 0 || doubled != 0 {
		t.Errorf("%d accepted, %d lost, %d doubled; want %d, 0, 0", len(ids), lost, doubled, lines)
	}
	d.wantNeverAnalysed()
}

// linesFile writes notifications of many users, one a line.
func linesFile(t *testing.T, lines, users int, to string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lines")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	for i := range lines {
		fmt.Fprintf(w, "{\"user_id\":\"user-%d\",\"to\":%q,\"title\":\"Order %d\"}\n", i%users, to, i)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// enqueue hands the lines of a file over with the program of this name, and gives their ids.
func (d *deployment) enqueue(w *worker, path string) []string {
	d.t.Helper()
	program := exec.CommandContext(d.t.Context(), enqueuePath,
		"--server", "http://"+w.api, "--file", path, "--print-ids")
	program.Env = append(os.Environ(), "REDIS_URL=", "DATABASE_URL=")
	var told bytes.Buffer
	program.Stderr = &told
	ids, err := program.Output()
	if err != nil {
		d.t.Fatalf("enqueue: %v\n%s", err, told.String())
	}
	return strings.Fields(string(ids))
}

// wantNeverAnalysed makes sure that Postgres had no statistics.
func (d *deployment) wantNeverAnalysed() {
	d.t.Helper()
	var analysed int
	if err := postgrestest.Connect(d.t, d.database).QueryRow(d.t.Context(), `SELECT count(*) FROM pg_stat_user_tables
		WHERE last_analyze IS NOT NULL OR last_autoanalyze IS NOT NULL`).Scan(&analysed); err != nil || analysed > 0 {
		d.t.Errorf("%d tables were analysed, %v; want none", analysed, err)
	}
}
