//go:build faults

package faults_test

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"github.com/pacer-notify/pacer/internal/postgrestest"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// A full disk is played with a limit on the size of files (RLIMIT_FSIZE), which a running server can be given by whoever
// started it: a write past it fails (EFBIG), as one on a full disk does (ENOSPC). Postgres ignores the signal that comes with
// it by itself; Redis is started under env, which has it ignored.

// diskScenarios are full disks.
func diskScenarios() []*scenario {
	half := 500 * time.Millisecond
	return []*scenario{
		{name: "RedisDiskFull", fault: "disk full under Redis's append-only file (MISCONF) for 3 s", record: inRedis, slow: half, without: settling,
			prepare: func(d *deployment) {
				d.redis = redistest.StartUnder(d.t, []string{"env", "--ignore-signal=XFSZ"}, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
				d.redisURL = d.redis.URL()
			},
			inject: func(d *deployment) {
				pid := d.redis.PID()
				d.limit(pid, rlimitFileSize, d.largest(filepath.Join(d.redis.Dir(), "appendonlydir")))
				d.last(3 * time.Second)
				d.limit(pid, rlimitFileSize, unlimited)
			}},
		{name: "PostgresDiskFull", fault: "disk full under Postgres's tables for 3 s", body: 1500, slow: half, without: settling,
			prepare: withSmallLogs,
			inject: func(d *deployment) {
				tables := d.largest(filepath.Join(d.postgres.Data(), "base"))
				d.limitPostgres(max(tables, walSegment))
				d.last(3 * time.Second)
				d.limitPostgres(unlimited)
			}},
		{name: "PostgresLogDiskFull", fault: "disk full under Postgres's log (WAL): it stops, and is started again after 5 s", slow: half, without: settling,
			doubled: inFlight, prepare: withSmallLogs,
			inject: func(d *deployment) {
				d.inFlight = d.sending() + 16
				d.limitPostgres(walSegment / 2)
				d.last(5 * time.Second)
				d.postgres.Restart()
			}},
	}
}

// walSegment is the size of the files of Postgres's log in these scenarios.
const walSegment = 1 << 20

func withSmallLogs(d *deployment) {
	d.postgres = postgrestest.StartWith(d.t, []string{"--wal-segsize=1"}, "min_wal_size=2MB", "wal_recycle=off")
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
		d.limit(pid, rlimitFileSize, bytes)
	}
}

// Numbers of Linux's limits.
const (
	rlimitFileSize  = 1
	rlimitFiles     = 7
	rlimitAddresses = 9
	unlimited       = ^uint64(0)
)

// limit sets the limit that is in force of a running process, which must be ours or anybody's if we are root. The highest
// that it may be set to stays, so that it can be lifted again.
func (d *deployment) limit(pid, resource int, to uint64) {
	var old struct{ current, most uint64 }
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource), 0, uintptr(unsafe.Pointer(&old)), 0, 0)
	if errno == 0 {
		next := old
		next.current = min(to, old.most)
		_, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource), uintptr(unsafe.Pointer(&next)), 0, 0, 0)
	}
	if errno != 0 && errno != syscall.ESRCH {
		d.fail("limit process %d: %v", pid, errno)
	}
}
