//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A full disk is played with a limit on the size of files (RLIMIT_FSIZE), which a running server can be given by
// whoever started it: a write past it fails (EFBIG), as one on a full disk does (ENOSPC). Postgres ignores the signal
// that comes with it by itself; Redis is started under env, which has it ignored.

// diskScenarios are full disks.
func diskScenarios() []*scenario {
	half := 500 * time.Millisecond
	return []*scenario{
		{
			name: "RedisDiskFull", fault: "disk full under Redis's append-only file (MISCONF) for 3 s", store: inRedis,
			slow: half, without: settling,
			prepare: func(d *deployment) {
				d.redis = redistest.StartUnder(d.t, []string{"env", "--ignore-signal=XFSZ"}, "--appendonly", "yes",
					"--auto-aof-rewrite-percentage", "0")
				d.redisURL = d.redis.URL()
			},
			inject: func(d *deployment) {
				pid := d.redis.PID()
				d.limit(pid, "fsize", d.largest(filepath.Join(d.redis.Dir(), "appendonlydir")))
				d.last(3 * time.Second)
				d.lift(pid, "fsize")
			},
		},
		{
			name: "PostgresDiskFull", fault: "disk full under Postgres's tables for 3 s", body: 1800, slow: half,
			without: protection{name: "what Postgres refuses is refused", rewrites: []rewrite{{
				file: "internal/store/postgres/accept.go",
				says: "\t\tcase o.Err != nil:\n\t\t\treturn o.Err\n", instead: "\t\tcase o.Err != nil:\n\t\t\tcontinue\n",
			}}},
			prepare: withSmallLogs, check: tableCouldNotGrow,
			inject: func(d *deployment) {
				size, err := d.query("SELECT pg_relation_size('pacer.notifications')")
				if err != nil {
					d.fail("%v", err)
				}
				release := d.keepOldRows()
				d.limitPostgres(max(uint64(size), walSegment))
				d.last(3 * time.Second)
				release()
				for _, pid := range d.postgres.PIDs() {
					d.lift(pid, "fsize")
				}
			},
		},
		{
			name:  "PostgresLogDiskFull",
			fault: "disk full under Postgres's log (WAL): it stops, and is started again after 5 s", slow: half,
			without: settling,
			prepare: withSmallLogs,
			inject: func(d *deployment) {
				d.limitPostgres(walSegment / 2)
				d.last(5 * time.Second)
				d.postgres.Restart()
			},
		},
	}
}

// walSegment is the size of the files of Postgres's log in these scenarios.
const walSegment = 1 << 20

func withSmallLogs(d *deployment) {
	d.postgres = postgrestest.StartWith(d.t, []string{"--wal-segsize=1"}, "min_wal_size=2MB", "wal_recycle=off")
}

// keepOldRows holds a snapshot, so that Postgres can't use the room of old versions of rows again: every change needs
// more.
func (d *deployment) keepOldRows() (release func()) {
	conn, err := pgx.Connect(d.t.Context(), d.postgres.URL())
	if err == nil {
		_, err = conn.Exec(d.t.Context(),
			"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pacer.notifications")
	}
	if err != nil {
		d.fail("hold a snapshot: %v", err)
	}
	return func() { _ = conn.Close(context.WithoutCancel(d.t.Context())) }
}

// tableCouldNotGrow looks for Postgres's own word that its disk was full.
func tableCouldNotGrow(d *deployment, _ verdict) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(d.postgres.Data()), "log"))
	if err != nil || !strings.Contains(string(text), "could not extend file") {
		d.blame("Postgres could write all it wanted: the scenario shows nothing (%v)", err)
	}
}

// largest is the size of the largest file below a directory.
func (d *deployment) largest(dir string) uint64 {
	largest := int64(0)
	err := filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a file may go while we look
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			largest = max(largest, info.Size())
		}
		return nil
	})
	if err != nil || largest == 0 {
		d.fail("find the files in %s: %v", dir, err)
	}
	return uint64(largest)
}

func (d *deployment) limitPostgres(bytes uint64) {
	for _, pid := range d.postgres.PIDs() {
		d.limit(pid, "fsize", bytes)
	}
}

// limit sets one of the limits of a running process: fsize, nofile or as. The highest that it may be set to stays, so
// that it can be lifted again. It is set as the user that the process runs as: not every root may set others' limits.
func (d *deployment) limit(pid int, resource string, to uint64) {
	command := exec.Command("prlimit", "--pid", strconv.Itoa(pid), fmt.Sprintf("--%s=%d:", resource, to))
	if os.Geteuid() == 0 {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			return // it is gone
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			d.fail("the system does not tell whose process %d is", pid)
		}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if out, err := command.CombinedOutput(); err != nil && !strings.Contains(string(out), "No such process") {
		d.fail("limit %s of process %d: %v: %s", resource, pid, err, out)
	}
}

// lift sets a limit as high as it may be.
func (d *deployment) lift(pid int, resource string) {
	text, err := exec.Command("prlimit", "--pid", strconv.Itoa(pid), "--"+resource, "--raw", "--noheadings", "--output",
		"HARD").Output()
	most, parseErr := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || parseErr != nil {
		most = math.MaxUint64 // unlimited
	}
	d.limit(pid, resource, most)
}
